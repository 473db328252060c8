"""`status`: how far runs are, once or for as long as they go."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from msgspec import to_builtins
from rich.console import Console, Group, RenderableType

from booksan_client.api import Follower
from booksan_client.connect import ServerOptions, interrupted_by
from booksan_client.display import PAINTED
from booksan_client.manage import client_api
from booksan_client.state import known_clients
from booksan_common.commands import conclude, print_json
from booksan_common.errors import BooksanError, RunGone
from booksan_common.shapes import Status
from booksan_common.terminal import (
    Column,
    FittedTable,
    Painting,
    PatientConsole,
    Screenful,
    is_live,
    shown,
)

#: Seconds between two looks at whether the user wants to stop.
LOOK = 0.2
#: Seconds between two looks at all clients.
ALL = 1.0


def status_command(id: str | None, options: ServerOptions, *, watch: bool, as_json: bool) -> int:
    def work(err: Console, stopping: Callable[[], bool]) -> int:
        look = interrupted_by(stopping)
        if id is None:
            _all(options, look, err, watch=watch, as_json=as_json)
            return 0
        with client_api(id, options, look) as (api, _):
            status = api.status(stages=True)
            if watch:
                try:
                    with Follower(api, status, stages_every=PAINTED) as follower:
                        _watched(follower, status, look, None if as_json else err)
                        status = api.status(stages=True)
                except RunGone as error:
                    if error.how != "done":
                        raise
                    _tell_fetched(status, as_json=as_json)
                    return 0
        if as_json:
            print_json(document(status) | {"exit_code": 0})
        else:
            PatientConsole().print(Group(*picture(status)))
        return 0

    return conclude(work, as_json=as_json)


def _tell_fetched(status: Status, *, as_json: bool) -> None:
    """Whoever submitted the run was faster than the last look."""
    if as_json:
        known = {"id": status.id, "dataset": status.dataset, "state": "gone", "how": "done"}
        print_json(known | {"exit_code": 0})
    else:
        said = f"{status.id}: {status.dataset}, done; its answers were fetched"
        PatientConsole().print(shown(said), soft_wrap=True)


def _all(
    options: ServerOptions, look: Callable[[], None], err: Console, *, watch: bool, as_json: bool
) -> None:
    found = _every(options, look)
    if watch:
        found = _watched_all(found, options, look, None if as_json else err)
    if as_json:
        print_json({"clients": found, "exit_code": 0})
    else:
        console = PatientConsole()
        console.print(_clients(found) if found else "no clients are known here")


def _every(options: ServerOptions, look: Callable[[], None]) -> list[dict[str, Any]]:
    """Every client of this user; one that cannot be asked about does not hide the others."""
    found: list[dict[str, Any]] = []
    for _, state in list(known_clients()):
        try:
            with client_api(state.id, options, look) as (api, _):
                each = document(api.status(stages=True))
        except RunGone as error:
            each = {"id": state.id, "dataset": state.dataset, "state": "gone", "how": error.how}
        except BooksanError as error:
            look()
            each = {"id": state.id, "dataset": state.dataset, "error": str(error)}
        found.append({"phase": state.phase, **each})
    return found


def _clients(found: Sequence[dict[str, Any]]) -> FittedTable:
    table = FittedTable(
        Column("client"),
        Column("data set", 3),
        Column("here", 4),
        Column("at the server", wraps=12),
        Column("rows", 2, right=True),
        Column("rejected", 5, right=True),
        Column("answers", 1, right=True),
    )
    for each in found:
        sources = each.get("sources", {}).values()
        counts = (f"{sum(s[name] for s in sources):,}" for name in ("rows", "rejected"))
        table.add_row(
            each["id"],
            each["dataset"],
            each["phase"],
            each.get("state") or each["error"],
            *counts,
            _answers(each.get("answers", {})),
            rank=int(_is_over(each)),
        )
    return table


def _answers(answers: dict[str, Any]) -> str:
    return f"{sum(each['complete'] for each in answers.values())} of {len(answers)}"


def _is_over(client: dict[str, Any]) -> bool:
    return client.get("state") in ("done", "failed", "gone")


def _watched_all(
    found: list[dict[str, Any]],
    options: ServerOptions,
    look: Callable[[], None],
    err: Console | None,
) -> list[dict[str, Any]]:
    """Until each of them is done, failed or gone; new ones are watched too."""
    with ExitStack() as stack:
        live = None
        if err is not None and is_live(err):
            live = stack.enter_context(Painting(err, transient=True))
        told: dict[str, str] = {}
        while not all(map(_is_over, found)):
            if live is not None:
                live.update(Screenful(_clients(found)), refresh=True)
            elif err is not None:
                _tell_changes(err, found, told)
            _pause(ALL, look)
            found = _every(options, look)
    return found


def _tell_changes(err: Console, found: Sequence[dict[str, Any]], told: dict[str, str]) -> None:
    for each in found:
        rows = ", ".join(f"{s['rows']:,} {name}" for name, s in each.get("sources", {}).items())
        words = (each.get("state") or each["error"], rows)
        answers = f"{_answers(each['answers'])} answers" if each.get("answers") else ""
        line = f"{each['id']}: {', '.join(filter(None, (*words, answers)))}"
        if told.get(each["id"]) != line:
            told[each["id"]] = line
            err.print(shown(f"booksan: {line}"), soft_wrap=True)


def _pause(seconds: float, look: Callable[[], None]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        look()
        time.sleep(LOOK)


def _watched(
    follower: Follower, status: Status, look: Callable[[], None], err: Console | None
) -> None:
    """Until the run is done or failed; a terminal shows it all, a file a line per change."""
    with ExitStack() as stack:
        live = None
        if err is not None and is_live(err):
            live = stack.enter_context(Painting(err, Screenful(*picture(status)), transient=True))
        told = ""
        stages = status
        while status.state not in ("done", "failed"):
            look()
            if status.stage:
                stages = status
            if live is not None:
                live.update(Screenful(*picture(status, stages)))
            elif err is not None and (line := _line(status)) != told:
                told = line
                err.print(shown(f"booksan: {line}"), soft_wrap=True)
            follower.wait_for_news(status, LOOK)
            status = follower.latest()


def document(status: Status) -> dict[str, Any]:
    """Everything but what gives access."""
    found: dict[str, Any] = to_builtins(status)
    for name in ("ticket", "permits", "version"):
        del found[name]
    for lack in found.get("resend", {}).values():
        lack["ranges"] = lack.pop("batches")
    return found


def _line(status: Status) -> str:
    sources = ", ".join(f"{each.rows:,} {name}" for name, each in status.sources.items())
    complete = sum(each.complete for each in status.answers.values())
    stalled = f"; {status.stall.words()}" if status.stall else ""
    answers = f"{complete} of {len(status.answers)} answers"
    return f"{status.id}: {status.state}, {sources}, {answers}{stalled}"


def picture(status: Status, with_stages: Status | None = None) -> list[RenderableType]:
    parts: list[RenderableType] = [shown(f"{status.id}: {status.dataset}, {status.state}")]
    if status.failed:
        parts.append(shown(status.failed))
    if status.stall:
        parts.append(shown(f"stalled: {status.stall.words()}"))
    sources = FittedTable(
        Column("source"),
        Column("batches", 3, right=True),
        Column("of", 4, right=True),
        Column("rows", 1, right=True),
        Column("rejected", 2, right=True),
        Column("complete", 5),
    )
    for name, each in status.sources.items():
        moved = (each.batches, _of(each.of_batches), f"{each.rows:,}", f"{each.rejected:,}")
        sources.add_row(name, *moved, _yes(each.complete))
    parts.append(sources)
    stages = FittedTable(
        Column("stage"),
        Column("shards", 5, right=True),
        Column("batches", 1, right=True),
        Column("of", 2, right=True),
        Column("rows", 3, right=True),
        Column("MB", 4, right=True),
        Column("done"),
    )
    for name, stage in (with_stages or status).stage.items():
        counts = (stage.shards, stage.batches, _of(stage.of_batches), f"{stage.rows:,}")
        size = f"{stage.bytes / 1e6:,.1f}"
        stages.add_row(name, *counts, size, _yes(stage.done), rank=int(stage.done))
    if stages.rows:
        parts.append(stages)
    parts += map(shown, status.unmatched())
    return parts


def _of(batches: int | None) -> str:
    return "?" if batches is None else str(batches)


def _yes(true: bool) -> str:
    return "yes" if true else ""
