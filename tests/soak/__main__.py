"""python -m tests.soak --minutes N: rounds of faults of all kinds, and the page of their figures.

Ctrl-C ends it after the round in hand is given up; the next start goes on behind the last round.
"""

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.soak.cluster_part import Processes
from tests.soak.figures import PAGE, PARTS, write_figures, write_page
from tests.soak.journal import Journal
from tests.soak.leaks import Leaks
from tests.soak.network_part import Network
from tests.soak.parts import BrokenOnPurpose, Part, Simulation
from tests.soak.power_part import Power

ALL: Sequence[type[Part]] = (Simulation, BrokenOnPurpose, Power, Processes, Network, Leaks)
JOURNAL = Path("build/soak/journal.jsonl")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--minutes", type=float, default=1.0, help="the budget; 0: only the page")
    names = ",".join(part.name for part in ALL)
    parser.add_argument("--parts", default=names, help=f"of {names}")
    parser.add_argument("--journal", type=Path, default=JOURNAL)
    parser.add_argument("--write", action="store_true", help="docs/reliability.md, too")
    args = parser.parse_args(arguments)
    # What workers and gateways say of their troubles would bury what is found.
    logging.disable()
    chosen = [part for part in ALL if part.name in args.parts.split(",")]
    journal = Journal(args.journal)
    good = _run(chosen, journal, 60 * args.minutes) if args.minutes else True
    if args.write:
        write(journal)
    return 0 if good else 1


def write(journal: Journal, page: Path = PAGE, directory: Path = PARTS) -> None:
    """The figures of all parts that the journal knows; those of others stay as they are."""
    for part in ALL:
        rounds = journal.rounds(part.name)
        if rounds:
            write_figures(part.figures(rounds), directory)
    write_page(page, directory)


def _run(chosen: Sequence[type[Part]], journal: Journal, seconds: float) -> bool:
    """Whichever part has had least of its share of the time is next; False: something was found."""
    deadline = time.monotonic() + seconds
    good = True
    with ExitStack() as stack:
        root = Path(stack.enter_context(TemporaryDirectory(prefix="booksan-soak-")))
        parts = [one for one in (part(root, stack) for part in chosen) if _can_run(one)]
        spent = {part.name: 0.0 for part in parts}
        try:
            while time.monotonic() < deadline:
                left = [part for part in parts if _has_rounds(part, journal)]
                if not left:
                    break
                part = min(left, key=lambda one: spent[one.name] / one.share)
                good &= _round(part, journal, spent)
        except KeyboardInterrupt:
            print("stopped; the next start goes on from here", file=sys.stderr)
    return good


def _round(part: Part, journal: Journal, spent: dict[str, float]) -> bool:
    began = time.monotonic()
    done = part.round(journal.next_number(part.name))
    journal.add(done)
    spent[part.name] += time.monotonic() - began
    faults = sum(done.faults.values())
    print(
        f"{part.name} {done.number}: {done.runs} runs, {faults} faults, {done.seconds:.0f} s, "
        + ", ".join(f"{outcome} {count}" for outcome, count in done.outcomes.items()),
        flush=True,
    )
    for finding in done.findings:
        print(finding, file=sys.stderr, flush=True)
    return not done.findings


def _has_rounds(part: Part, journal: Journal) -> bool:
    if part.over:
        return False
    return part.rounds is None or journal.next_number(part.name) < part.rounds


def _can_run(part: Part) -> bool:
    reason = part.lacks
    if reason is not None:
        print(f"{part.name} is left out: {reason}", file=sys.stderr)
    return reason is None


if __name__ == "__main__":
    sys.exit(main())
