"""The commands `booksan letters ...` and `booksan inspect`."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from booksan.operate.letters import Letter

app = typer.Typer(
    no_args_is_help=True, help="Dead letters: messages that could not be handled, with their error."
)

DataDirs = Annotated[
    list[Path] | None,
    typer.Option(
        "--data-dir",
        help="Of a host, a run or a cluster; repeat it for several.",
        show_default="all in the user's state directory",
    ),
]
Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID...", help="Letters by the beginnings of their ids."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command("list")
def list_letters(data_dir: DataDirs = None, as_json: AsJson = False) -> None:
    """Shows all dead letters, oldest first."""
    letters = _letters(data_dir)
    if as_json:
        _print_json({"letters": [letter.as_dict() for letter in letters]})
        return
    from booksan.operate.tables import show_letters
    from booksan_client.terminal import PatientConsole

    show_letters(PatientConsole(), letters)


@app.command("show")
def show(
    letter: Annotated[str, typer.Argument(metavar="ID", help="The beginning of its id.")],
    data_dir: DataDirs = None,
) -> None:
    """Shows one letter: its error, where it came from, and what is in it."""
    from booksan.operate.letters import choose
    from booksan.operate.tables import show_letter
    from booksan_client.terminal import PatientConsole

    for one in choose(_letters(data_dir), [letter], every=False):
        show_letter(PatientConsole(), one, _contents(one))


@app.command("replay")
def replay_letters(
    letters: Ids = None,
    every: Annotated[bool, typer.Option("--all", help="All that there are.")] = False,
    data_dir: DataDirs = None,
) -> None:
    """Sends letters to their shards again, after the cause was mended.

    The worker that can handle one now puts it away, and its client is no longer failed.
    """
    from booksan.operate.letters import choose, replay
    from booksan_client.terminal import say

    for one in choose(_letters(data_dir), letters or [], every=every):
        replay(one)
        say(f"{one.id} was sent to {one.queue} again")


@app.command("remove")
def remove_letters(
    letters: Ids = None,
    every: Annotated[bool, typer.Option("--all", help="All that there are.")] = False,
    data_dir: DataDirs = None,
) -> None:
    """Removes letters for good; their clients stay failed."""
    from booksan.operate.letters import choose, remove
    from booksan_client.terminal import say

    for one in choose(_letters(data_dir), letters or [], every=every):
        remove(one)
        outcome = f"; client {one.client} stays failed" if one.client else ""
        say(f"{one.id} is removed{outcome}")


def inspect(
    client: Annotated[
        str | None, typer.Argument(metavar="CLIENT", help="Its id.", show_default="all")
    ] = None,
    data_dir: DataDirs = None,
    as_json: AsJson = False,
) -> None:
    """Shows how far each shard is with unfinished clients, from their databases."""
    from booksan.operate.clients import inspect_clients
    from booksan.operate.directories import data_directories

    found = inspect_clients(data_directories(data_dir or ()), client)
    if as_json:
        _print_json({"clients": found})
        return
    from booksan.operate.tables import show_clients
    from booksan_client.terminal import PatientConsole

    show_clients(PatientConsole(), found)


def _letters(data_dir: list[Path] | None) -> "list[Letter]":
    from booksan.operate.directories import data_directories
    from booksan.operate.letters import find_letters

    return find_letters(data_directories(data_dir or ()))


def _contents(letter: "Letter") -> str:
    """The first rows of a batch, or why there are none to show."""
    from booksan.errors import MessageError
    from booksan.messages import decode, to_frame

    try:
        message = decode(letter.path.read_bytes())
        return str(to_frame(message.body)) if message.body else "no rows"
    except MessageError as error:
        return f"cannot be read: {error}"


def _print_json(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
