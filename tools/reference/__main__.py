"""`python -m tools.reference [--check]`: write docs/reference, or only say whether it is current."""

from __future__ import annotations

import argparse
import sys

from tools.reference import FOLDER, ROOT, differences, write


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.reference", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when a file differs")
    check: bool = parser.parse_args().check
    changed = differences() if check else write()
    for name in changed:
        print(f"{'differs' if check else 'wrote'}  {(FOLDER / name).relative_to(ROOT)}")
    if check and changed:
        print("run `python -m tools.reference` and read the diff", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
