"""What becomes of runs that were begun earlier: their answers, their end, and all of them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from booksan_client.api import ClientApi
from booksan_client.collect import Collector
from booksan_client.connect import ServerOptions, connect, interrupted_by
from booksan_client.display import RunDisplay
from booksan_client.errors import RunGone, UsageError
from booksan_client.files import check_directory
from booksan_client.out import FORMATS, OutDirectory
from booksan_client.outcome import conclude, print_json
from booksan_client.results import Results
from booksan_client.state import ClientDirectory, clients_home, find_client
from booksan_client.submit import check_choice
from booksan_client.terminal import PatientConsole, shown


@contextmanager
def client_api(
    id: str,
    options: ServerOptions,
    look: Callable[[], object],
    tell: Callable[[str], object] | None = None,
) -> Iterator[tuple[ClientApi, Path | None]]:
    """The calls for a client, and its directory if it is one of this user's."""
    known = find_client(id)
    if known is None and options.operator_token() is None:
        raise UsageError(
            f"no client {id!r} is known here; booksan status shows those that are, and the "
            "operator's token lets you see others"
        )
    path, state = known or (None, None)
    token = options.token() if state else options.operator_token()
    urls = options.urls(state.servers if state else ())
    with closing(connect(urls, token, look, options.patience, tell)) as api:
        if state is None:
            yield api.client(id, None), None
        else:
            yield api.client(id, state.secret, state.ticket), path


def results_command(
    id: str, out: Path, form: str, options: ServerOptions, *, keep: bool, as_json: bool
) -> int:
    def work(err: Console, stopping: Callable[[], bool]) -> int:
        check_directory(out, UsageError)
        check_choice("format", form, FORMATS)
        look = interrupted_by(stopping)
        display = RunDisplay(err, None if as_json else PatientConsole())
        with ExitStack() as stack:
            stack.enter_context(closing(display))
            api, path = stack.enter_context(client_api(id, options, look, display.note))
            directory = None
            if path is not None:
                directory = stack.enter_context(closing(ClientDirectory.open(path)))
            place = stack.enter_context(closing(OutDirectory.open(out)))
            collector = Collector(api, place, form, display, look)
            summary = Results(collector, display, directory).fetch(keep=keep)
        if as_json:
            print_json(asdict(summary) | {"id": id, "kept": keep, "exit_code": 0})
        else:
            display.note(f"the answers of {id} are in {out}")
        return 0

    return conclude(work, as_json=as_json, places=lambda: [out, clients_home()])


def cancel_command(id: str, options: ServerOptions, *, as_json: bool) -> int:
    def work(err: Console, stopping: Callable[[], bool]) -> int:
        with client_api(id, options, interrupted_by(stopping)) as (api, path):
            try:
                how = api.cancel()
            except RunGone as error:
                # What is gone already is as good as cancelled.
                how = error.how or "unknown"
            _forget_unless_in_use(path)
        if as_json:
            print_json({"id": id, "how": how, "exit_code": 0})
        else:
            PatientConsole().print(shown(f"{id}: {how}"))
        return 0

    return conclude(work, as_json=as_json)


def _forget_unless_in_use(path: Path | None) -> None:
    """A command that still works on the client finds out by itself, and removes it then."""
    if path is None:
        return
    try:
        directory = ClientDirectory.open(path)
    except UsageError:
        return
    with closing(directory):
        directory.remove()


def list_command(options: ServerOptions, *, as_json: bool) -> int:
    def work(err: Console, stopping: Callable[[], bool]) -> int:
        token = options.needed_operator_token()
        look = interrupted_by(stopping)
        with closing(connect(options.urls(), token, look, options.patience)) as api:
            found = api.clients()
        if as_json:
            print_json(found | {"exit_code": 0})
            return 0
        table = Table("client", "data set", "state", "host", "expires")
        for each in found["clients"]:
            expires = datetime.fromtimestamp(each["expires"], UTC).strftime("%Y-%m-%d %H:%M UTC")
            table.add_row(
                *(shown(each[name]) for name in ("id", "dataset", "state", "host")), expires
            )
        PatientConsole().print(table)
        if found["missing"]:
            err.print(shown(f"booksan: no answer from {', '.join(found['missing'])}"))
        return 0

    return conclude(work, as_json=as_json)
