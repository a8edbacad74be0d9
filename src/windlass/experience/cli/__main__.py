"""`python -m windlass.experience.cli`: the same as `windlass`, where it is not on the PATH."""

import sys

from windlass.experience.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
