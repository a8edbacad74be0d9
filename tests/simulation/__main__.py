"""`python -m tests.simulation SEED [COUNT]`: play one seed, or so many from it on, and tell what broke."""

from __future__ import annotations

import logging
import sys
from time import perf_counter

from tests.simulation.story import simulate


def main() -> int:
    logging.disable(logging.CRITICAL)
    first, count = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    began, broken, steps = perf_counter(), 0, 0
    for seed in range(first, first + count):
        told = simulate(seed)
        steps += told.steps
        if told.breaches:
            broken += 1
            print(told)  # noqa: T201
    print(f"{count} stories, {steps} steps, {broken} broken, {perf_counter() - began:.1f} s")  # noqa: T201
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
