"""python -m tests.simulation.faults --seeds A:B"""

import argparse
import logging
import sys
import time

from tests.simulation.faults.plan import Plan
from tests.simulation.faults.search import Tally, search
from tests.simulation.faults.trial import run_plan


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.faults")
    parser.add_argument("--seeds", default="0:300", help="A:B, or one seed")
    parser.add_argument("--plan", help="a plan as a search has told it, instead of seeds")
    args = parser.parse_args()
    # What a worker says of its troubles would bury what is found.
    logging.disable()
    if args.plan:
        return _replay(Plan.from_json(args.plan))
    first, _, end = args.seeds.partition(":")
    begun = time.monotonic()
    found = search(range(int(first), int(end) if end else int(first) + 1))
    _tell(found, time.monotonic() - begun)
    return 1 if found.findings else 0


def _replay(plan: Plan) -> int:
    verdict = run_plan(plan)
    print(f"{verdict.outcome}: {verdict.reason}" if verdict.reason else verdict.outcome)
    return 0 if verdict.good else 1


def _tell(found: Tally, seconds: float) -> None:
    for finding in found.findings:
        print(finding, file=sys.stderr)
    faults = sum(found.applied.values())
    print(f"{found.trials} trials, {faults} faults in {seconds:.0f} s")
    print(", ".join(f"{kind} {count}" for kind, count in sorted(found.applied.items())))
    print(", ".join(f"{outcome} {count}" for outcome, count in found.outcomes.items()))


if __name__ == "__main__":
    sys.exit(main())
