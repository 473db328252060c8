"""`status`: how far runs are, once or for as long as they go."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table

from booksan_client.connect import ServerOptions, interrupted_by
from booksan_client.errors import ClientError, RunGone
from booksan_client.follow import Follower
from booksan_client.manage import client_api
from booksan_client.outcome import conclude, print_json
from booksan_client.state import known_clients
from booksan_client.status import Status
from booksan_client.terminal import PatientConsole, shown

#: Seconds between two looks at whether the user wants to stop.
LOOK = 0.2


def status_command(id: str | None, options: ServerOptions, *, watch: bool, as_json: bool) -> int:
    def work(err: Console, stopping: Callable[[], bool]) -> int:
        look = interrupted_by(stopping)
        if id is None:
            _all(options, look, as_json)
            return 0
        with client_api(id, options, look) as (api, _):
            status = api.status(stages=True)
            if watch:
                with Follower(api, status, show_stages=True) as follower:
                    _watched(follower, status, look, None if as_json else err)
                    status = api.status(stages=True)
        if as_json:
            print_json(document(status) | {"exit_code": 0})
        else:
            PatientConsole().print(picture(status))
        return 0

    return conclude(work, as_json=as_json)


def _all(options: ServerOptions, look: Callable[[], None], as_json: bool) -> None:
    """Every client of this user; one that cannot be asked about does not hide the others."""
    found: list[dict[str, Any]] = []
    for _, state in list(known_clients()):
        try:
            with client_api(state.id, options, look) as (api, _):
                each = document(api.status(stages=True))
        except RunGone as error:
            each = {"id": state.id, "dataset": state.dataset, "state": "gone", "how": error.how}
        except ClientError as error:
            look()
            each = {"id": state.id, "dataset": state.dataset, "error": str(error)}
        found.append({"phase": state.phase, **each})
    if as_json:
        print_json({"clients": found, "exit_code": 0})
        return
    console = PatientConsole()
    if not found:
        console.print("no clients are known here")
        return
    table = Table("client", "data set", "here", "at the server", "rows", "rejected")
    for each in found:
        sources = each.get("sources", {}).values()
        counts = (f"{sum(s[name] for s in sources):,}" for name in ("rows", "rejected"))
        there = each.get("state") or each["error"]
        cells = (each["id"], each["dataset"], each["phase"], there)
        table.add_row(*map(shown, cells), *counts)
    console.print(table)


def _watched(
    follower: Follower, status: Status, look: Callable[[], None], err: Console | None
) -> None:
    """Until the run is done or failed; a terminal shows it all, a file a line per change."""
    with ExitStack() as stack:
        live = None
        if err is not None and err.is_terminal:
            live = stack.enter_context(Live(picture(status), console=err, transient=True))
        told = ""
        stages = status
        while status.state not in ("done", "failed"):
            look()
            if status.stages:
                stages = status
            if live is not None:
                live.update(picture(status, stages))
            elif err is not None and (line := _line(status)) != told:
                told = line
                err.print(shown(f"booksan: {line}"), soft_wrap=True)
            follower.wait_for_news(status, LOOK)
            status = follower.latest()


def document(status: Status) -> dict[str, Any]:
    """Everything but what gives access."""
    found = asdict(status)
    for name in ("ticket", "permits", "version"):
        del found[name]
    return found


def _line(status: Status) -> str:
    sources = ", ".join(f"{each.rows:,} {name}" for name, each in status.sources.items())
    complete = sum(each.complete for each in status.answers.values())
    stalled = f"; {status.stalled.words()}" if status.stalled else ""
    answers = f"{complete} of {len(status.answers)} answers"
    return f"{status.id}: {status.state}, {sources}, {answers}{stalled}"


def picture(status: Status, with_stages: Status | None = None) -> RenderableType:
    parts: list[RenderableType] = [shown(f"{status.id}: {status.dataset}, {status.state}")]
    if status.failed:
        parts.append(shown(status.failed))
    sources = Table("source", "batches", "of", "rows", "rejected", "complete")
    for name, each in status.sources.items():
        moved = (each.batches, _of(each.of_batches), f"{each.rows:,}", f"{each.rejected:,}")
        sources.add_row(shown(name), *map(str, moved), _yes(each.complete))
    parts.append(sources)
    stages = Table("stage", "shards", "batches", "of", "rows", "MB", "done")
    for name, stage in (with_stages or status).stages.items():
        counts = (stage.shards, stage.batches, _of(stage.of_batches), f"{stage.rows:,}")
        size = f"{stage.bytes / 1e6:,.1f}"
        stages.add_row(shown(name), *map(str, counts), size, _yes(stage.done))
    if stages.rows:
        parts.append(stages)
    if status.stalled:
        parts.append(shown(f"stalled: {status.stalled.words()}"))
    return Group(*parts)


def _of(batches: int | None) -> str:
    return "?" if batches is None else str(batches)


def _yes(true: bool) -> str:
    return "yes" if true else ""
