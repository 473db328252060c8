"""The commands `booksan letters ...` and `booksan inspect`."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from booksan_client.cli import Json
from booksan_client.completion import beginning
from booksan_common.commands import Commands, notes, option

if TYPE_CHECKING:
    from booksan.operate.inspect import Source, United
    from booksan.operate.letters import DeadLetter

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    help="Dead letters: messages that could not be handled, with their error.",
)


#: Where hosts keep their data below the user's state directory, and below a directory of a cluster.
_HOSTS = ("runs/*", "hosts/*/*", "clusters/*/hosts/*")
_HOSTS_OF_CLUSTER = (".", "hosts/*")


def _ids(context: typer.Context, incomplete: str) -> list[str]:
    """For the shell's completion, as the two below."""
    return beginning(incomplete, _names(context, "letters/*/*.msg"))


def _clients(context: typer.Context, incomplete: str) -> list[str]:
    return beginning(incomplete, _names(context, "clients/*"))


def _names(context: typer.Context, pattern: str) -> list[str]:
    """By names alone: what they are is looked at when the command runs."""
    from booksan_common.files import state_home

    given = [Path(each) for each in context.params.get("data_dir") or ()]
    bases, hosts = (given, _HOSTS_OF_CLUSTER) if given else ([state_home()], _HOSTS)
    found = (path for base in bases for host in hosts for path in base.glob(f"{host}/{pattern}"))
    return sorted({path.stem for path in found})


DataDirs = Annotated[
    list[Path] | None,
    option(
        "DIR",
        "Of a host, a run or a cluster; repeat it for several.",
        "--data-dir",
        default="all in the user's state directory",
    ),
]
Ids = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ID", help="Letters by the beginnings of their ids.", autocompletion=_ids
    ),
]
All = Annotated[bool, typer.Option("--all", help="All that there are.")]


@app.command("list", epilog=notes("booksan letters list"))
def list_letters(data_dir: DataDirs = None, as_json: Json = False) -> None:
    """Shows all dead letters, oldest first."""
    letters = _letters(data_dir)
    if as_json:
        _print_json(letters)
        return
    from booksan.operate.inspect import show_letters
    from booksan_common.terminal import PatientConsole

    show_letters(PatientConsole(), letters)


@app.command("show", epilog=notes("booksan letters show 3f2a"))
def show(
    letter: Annotated[
        str,
        typer.Argument(metavar="ID", help="The beginning of its id.", autocompletion=_ids),
    ],
    data_dir: DataDirs = None,
    as_json: Json = False,
) -> None:
    """Shows one letter: its error, where it came from, and what is in it."""
    from booksan.operate.letters import choose

    chosen = choose(_letters(data_dir), [letter], every=False)
    if as_json:
        _print_json(chosen, lambda one: {"contents": _contents(one)})
        return
    from booksan.operate.inspect import show_letter
    from booksan_common.terminal import PatientConsole

    for one in chosen:
        show_letter(PatientConsole(), one, _contents(one))


@app.command(
    "replay",
    epilog=notes("booksan letters replay 3f2a", "booksan letters replay --all", codes=(6, 7)),
)
def replay_letters(
    letters: Ids = None,
    every: All = False,
    data_dir: DataDirs = None,
    as_json: Json = False,
) -> None:
    """Sends letters to their shards again, after the cause was mended.

    The worker that can handle one now puts it away, and its client is no longer failed.
    """
    from booksan.operate.letters import choose, replay
    from booksan_common.terminal import say

    chosen = choose(_letters(data_dir), letters or [], every=every)
    for one in chosen:
        replay(one)
        if not as_json:
            say(f"{one.id} was sent to {one.queue} again")
    if as_json:
        _print_json(chosen, lambda one: {"queue": one.queue})


@app.command("remove", epilog=notes("booksan letters remove 3f2a", "booksan letters remove --all"))
def remove_letters(
    letters: Ids = None,
    every: All = False,
    data_dir: DataDirs = None,
    as_json: Json = False,
) -> None:
    """Removes letters for good; their clients stay failed."""
    from booksan.operate.letters import choose, remove
    from booksan_common.terminal import say

    chosen = choose(_letters(data_dir), letters or [], every=every)
    for one in chosen:
        remove(one)
        outcome = f"; client {one.client} stays failed" if one.client else ""
        if not as_json:
            say(f"{one.id} is removed{outcome}")
    if as_json:
        _print_json(chosen)


def inspect(
    client: Annotated[
        str | None,
        typer.Argument(
            metavar="CLIENT", help="Its id.", show_default="all", autocompletion=_clients
        ),
    ] = None,
    data_dir: DataDirs = None,
    sql: Annotated[
        str | None,
        option(
            "SELECT", "Ask all databases of the client at once; host, stage and shard are columns."
        ),
    ] = None,
    db: Annotated[
        Path | None,
        option("FILE", "Save them as one new database, for other tools."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Shows how far each shard is with unfinished clients, from their databases."""
    from booksan.operate.letters import data_directories

    directories = data_directories(data_dir or ())
    if sql is not None or db is not None:
        from booksan.operate.inspect import sources

        if sql is not None and db is not None:
            raise typer.BadParameter("--sql and --db do not go together")
        found = sources(directories, client)
        if sql is not None:
            _ask(found, sql, as_json)
        elif db is not None:
            _save(found, db, as_json)
        return
    from booksan.operate.inspect import inspect_clients

    described = inspect_clients(directories, client)
    if as_json:
        from booksan_common.commands import print_json

        print_json({"clients": described, "exit_code": 0})
        return
    from booksan.operate.inspect import show_clients
    from booksan_common.terminal import PatientConsole

    show_clients(PatientConsole(), described)


def _ask(found: "list[Source]", sql: str, as_json: bool) -> None:
    """One SELECT over all databases of a client."""
    from booksan.operate.inspect import united

    with united(found) as whole:
        answer = whole.ask(sql)
    _warn(whole)
    if as_json:
        from booksan_common.commands import print_json

        print_json(answer.as_dict() | {"left_out": whole.told(), "exit_code": 0})
        return
    from booksan.operate.inspect import show_answer
    from booksan_common.terminal import PatientConsole

    show_answer(PatientConsole(), answer)


def _save(found: "list[Source]", path: Path, as_json: bool) -> None:
    """All databases of a client as one, for the sqlite3 shell or datasette."""
    from booksan.operate.inspect import save
    from booksan_common.terminal import say

    whole = save(found, path)
    _warn(whole)
    size, databases = path.stat().st_size, len(found) - len(whole.left_out)
    if as_json:
        from booksan_common.commands import print_json

        told = {"file": str(path), "bytes": size, "tables": sorted(whole.tables)}
        print_json(told | {"left_out": whole.told(), "exit_code": 0})
        return
    say(f"{path}: {len(whole.tables)} tables from {databases} databases, {size / 1e6:,.1f} MB")
    say(f"look at it with: sqlite3 {path} 'select * from progress', or: datasette {path}")


def _warn(whole: "United") -> None:
    from booksan_common.terminal import say

    for path, reason in whole.left_out.items():
        say(f"booksan: {path} is left out: {reason}", err=True)


def _letters(data_dir: list[Path] | None) -> "list[DeadLetter]":
    from booksan.operate.letters import data_directories, find_letters

    return find_letters(data_directories(data_dir or ()))


def _contents(letter: "DeadLetter") -> str:
    """The first rows of a batch, or why there are none to show."""
    from booksan.errors import MessageError
    from booksan.messages import decode, to_frame

    try:
        message = decode(letter.path.read_bytes())
        return str(to_frame(message.body)) if message.body else "no rows"
    except MessageError as error:
        return f"cannot be read: {error}"


def _print_json(
    letters: "Iterable[DeadLetter]", more: "Callable[[DeadLetter], dict[str, str]]" = lambda _: {}
) -> None:
    """What was done with them, or what they are."""
    from booksan_common.commands import print_json

    print_json({"letters": [one.as_dict() | more(one) for one in letters], "exit_code": 0})
