"""python -m tests.simulation.election --seeds A:B"""

import argparse
import sys
import time

from booksan.membership.member import Timing
from tests.simulation.election.promises import PromiseBroken
from tests.simulation.election.world import World, run_seeds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.election")
    parser.add_argument("--seeds", default="0:3000", help="A:B, or one seed")
    parser.add_argument("--trace", action="store_true", help="tell every event of the schedules")
    args = parser.parse_args()
    first, _, end = args.seeds.partition(":")
    seeds = range(int(first), int(end) if end else int(first) + 1)
    timing = Timing()
    begun = time.process_time()
    try:
        worst = run_seeds(seeds, timing, trace=print if args.trace else None)
    except PromiseBroken as broken:
        print(broken, file=sys.stderr)
        return 1
    if args.trace and len(seeds) == 1:
        print(World(seeds[0], timing).schedule)
    spent = time.process_time() - begun
    print(
        f"{len(seeds)} schedules kept all promises; all agreed at worst {worst:.2f} s after the "
        f"calm (promised: {timing.settling:.2f} s); {len(seeds) / max(spent, 1e-9):.0f} schedules "
        "per second of one core"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
