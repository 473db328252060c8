"""What happened: lines as it goes, a log for programs, and the sum of it all."""

import json
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table

from booksan.chaos.kinds import Kind
from booksan.chaos.wounds import Wound

KILL, PAUSE, CONTINUE, BACK, LATE = "kill", "pause", "continue", "back", "late"


class Report:
    """Tells of each event once, and keeps what the summary needs."""

    def __init__(self, say: Callable[[str], None], log: Path | None) -> None:
        self._say = say
        self._log: TextIO | None = log.open("a", encoding="utf-8") if log else None
        self.wounds: list[Wound] = []

    def close(self) -> None:
        if self._log is not None:
            self._log.close()

    def struck(self, wound: Wound) -> None:
        self.wounds.append(wound)
        pids = [process.pid for process in wound.processes]
        event = PAUSE if wound.paused else KILL
        self._tell(event, wound, f"pid {', '.join(map(str, pids))}", pids=pids)

    def continued(self, wound: Wound) -> None:
        self._tell(CONTINUE, wound, "")

    def back(self, wound: Wound) -> None:
        took = round(wound.took or 0.0, 3)
        words = f"after {took:.2f} s" + (f", pid {wound.new_pid}" if wound.new_pid else "")
        self._tell(BACK, wound, words, seconds=took, pid=wound.new_pid)

    def late(self, wound: Wound, seconds: float) -> None:
        self._tell(LATE, wound, f"not back after {seconds:.0f} s", seconds=round(seconds, 3))

    def _tell(self, event: str, wound: Wound, words: str, **more: Any) -> None:
        now = time.time()
        stamp = time.strftime("%H:%M:%S", time.localtime(now))
        self._say(
            f"{stamp}.{int(now * 1000) % 1000:03d} {event:<8} {wound.kind:<10} {wound.name} {words}"
        )
        if self._log is not None:
            line = {"time": round(now, 3), "event": event, "kind": wound.kind, "name": wound.name}
            self._log.write(json.dumps(line | {"host": wound.host} | more) + "\n")
            self._log.flush()


def summary(wounds: Iterable[Wound], seed: int, seconds: float) -> dict[str, Any]:
    """As `--json` prints it."""
    wounds = list(wounds)
    rows = {kind: _row([one for one in wounds if one.kind is kind]) for kind in Kind}
    missing = [one for one in wounds if one.took is None]
    return {
        "seed": seed,
        "seconds": round(seconds, 3),
        "kills": sum(not one.paused for one in wounds),
        "pauses": sum(one.paused for one in wounds),
        "kinds": {str(kind): row for kind, row in rows.items() if row["kills"] + row["pauses"]},
        "late": sum(one.late for one in wounds),
        "not_back": [{"kind": str(one.kind), "name": one.name} for one in missing],
    }


def _row(wounds: list[Wound]) -> dict[str, Any]:
    took = [one.took for one in wounds if one.took is not None]
    return {
        "kills": sum(not one.paused for one in wounds),
        "pauses": sum(one.paused for one in wounds),
        "median": round(statistics.median(took), 3) if took else None,
        "worst": round(max(took), 3) if took else None,
        "not_back": sum(one.took is None for one in wounds),
    }


def show_summary(console: Console, found: dict[str, Any]) -> None:
    table = Table("kind", "kills", "pauses", "back: median", "worst", "not back")
    for kind, row in found["kinds"].items():
        counts = (str(row["kills"]), str(row["pauses"]))
        table.add_row(
            kind, *counts, _seconds(row["median"]), _seconds(row["worst"]), str(row["not_back"])
        )
    console.print(table)
    console.print(
        f"{found['kills']} kills, {found['pauses']} pauses in {found['seconds']:.0f} s, "
        f"seed {found['seed']}",
        highlight=False,
    )
    for one in found["not_back"]:
        console.print(f"not back: {one['kind']} {one['name']}", highlight=False, soft_wrap=True)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"
