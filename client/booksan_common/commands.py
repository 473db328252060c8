"""How every command line is read, helped with, interrupted, and ended."""

import io
import json
import os
import re
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

import typer
from rich.console import Console
from typer.core import TyperGroup

from booksan_common.errors import EXIT_CODES, BooksanError, Interrupted, NoSpace, UsageError
from booksan_common.files import NO_ROOM, existing, state_home, write_private
from booksan_common.names import nearest
from booksan_common.terminal import PatientConsole, mute, shown

# Ctrl-C, unless whoever started this process wants it to be ignored.
#
# nohup, and a shell that starts a job in the background of a script, have a signal ignored from
# the beginning: the key press is meant for another process. It then stays ignored.

Handler = Callable[[int, FrameType | None], object] | signal.Handlers


def heeded(*signums: signal.Signals) -> list[signal.Signals]:
    """Those that are not ignored."""
    return [signum for signum in signums if signal.getsignal(signum) is not signal.SIG_IGN]


def heed(handler: Handler, *signums: signal.Signals) -> None:
    for signum in heeded(*signums):
        signal.signal(signum, handler)


# How a command ends: one line or one JSON document, an exit code, and never a traceback.

EXIT_INTERNAL = 1


def conclude(
    work: Callable[[Console, Callable[[], bool]], int],
    *,
    as_json: bool,
    places: Callable[[], Sequence[Path]] = lambda: (),
) -> int:
    """Runs a command with a console for stderr and a flag that says whether to stop.

    `places` are the directories that it writes to; a full one is named.
    """
    never_fail_at_output()
    err = PatientConsole(stderr=True)
    try:
        return work(err, stop_flag())
    except Exception as error:  # noqa: BLE001 - whatever it is, the user gets one line
        return failed(error, as_json=as_json, places=places())


def failed(error: Exception, *, as_json: bool, places: Sequence[Path] = ()) -> int:
    """Tells an error that ends a command, while it is being handled; the exit code."""
    if isinstance(error, BooksanError):
        log = f"; {log_bug()}" if error.exit_code == EXIT_INTERNAL else ""
        return ended(as_json, f"{error}{log}", error.exit_code)
    if isinstance(error, OSError):
        return ended(as_json, *os_error(error, places))
    return ended(as_json, f"internal error: {error!r}; {log_bug()}", EXIT_INTERNAL)


def never_fail_at_output() -> None:
    """A character that the terminal cannot show must not end a run of hours."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def stop_flag() -> Callable[[], bool]:
    """SIGINT and SIGTERM only raise a flag; a second one ends the process at once."""
    stop = False

    def handle(signum: int, frame: FrameType | None) -> None:
        nonlocal stop
        stop = True
        signal.signal(signum, signal.SIG_DFL)

    heed(handle, signal.SIGINT, signal.SIGTERM)
    return lambda: stop


def os_error(error: OSError, places: Sequence[Path]) -> tuple[str, int]:
    if error.errno in NO_ROOM:
        return (
            f"no space left where {_fullest(places)} is; make room, then the same command goes on "
            "where it was",
            NoSpace.exit_code,
        )
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}; {log_bug()}", EXIT_INTERNAL


def _fullest(places: Sequence[Path]) -> Path:
    """A failed write does not tell where; of the places that are written to, it was this one."""
    known = [*places] or [state_home()]
    return min(known, key=lambda place: shutil.disk_usage(existing(place)).free)


def log_bug() -> str:
    """Keeps the traceback of the error that is being handled where a developer finds it."""
    try:
        path = state_home() / "error.log"
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(path, traceback.format_exc().encode(errors="backslashreplace"))
    except (OSError, UsageError) as error:
        return f"the details could not be written: {error}"
    return f"the details are in {path}"


def ended(as_json: bool, message: str, code: int) -> int:
    if as_json:
        print_json({"error": message, "exit_code": code})
    PatientConsole(stderr=True).print(shown(f"booksan: {message}"), soft_wrap=True)
    return code


def print_json(document: dict[str, Any]) -> None:
    """In ASCII, so that it is the same document in every locale."""
    text = json.dumps(document, indent=2)
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        mute(sys.stdout)


# How every command line is read, helped with, and ended; `booksan` and `booksan-client` are two.
#
# Whatever goes wrong, also in the command line itself, is one line on stderr, with `--json` one
# document on stdout, and an exit code. All other modules are imported when something is to be told.

#: The root of what typer raises about a command line; it has no public name of its own.
_WrongWords: type[Exception] = typer.BadParameter.__mro__[2]

SETTINGS = {"help_option_names": ["-h", "--help"]}

#: Titles of groups of options.
SERVERS = "Servers"
SELDOM = "Seldom needed"


def option(
    value: str,
    help: str,
    *names: str,
    default: str | None = None,
    panel: str | None = None,
    **more: Any,
) -> Any:
    """An option with a value: what it is called, what it is for, what it is unless it is given."""
    told = True if default is None else default
    return typer.Option(
        *names, metavar=value, help=help, show_default=told, rich_help_panel=panel, **more
    )


def notes(*examples: str, codes: Sequence[int] = ()) -> str:
    """The end of a help text: examples, and how the command can end besides 0, 1, 2 and 130."""
    lines = [f"Example: {example}" for example in examples]
    told = (0, 1, 2, *codes, 130)
    words = "; ".join(f"{code} {re.split('[;:,]', EXIT_CODES[code])[0]}" for code in sorted(told))
    return "\n\n".join([*lines, f"Exit codes: {words}."]).replace("[", r"\[")


class Commands(TyperGroup):
    """A group of commands; the outermost one ends the process."""

    #: Titles of groups of commands, all in the order of use; without any, as declared.
    panels: ClassVar[Mapping[str, Sequence[str]]] = {}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for title, names in self.panels.items():
            for name in names:
                if name in self.commands:
                    command: Any = self.commands.pop(name)
                    command.rich_help_panel = title
                    self.commands[name] = command

    def get_params(self, ctx: Any) -> Any:
        return _terse(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        known = self.list_commands(ctx)
        if name not in known and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"there is no command {name!r}; {nearest(name, known)}")
        found, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            _terse(command.get_params(ctx))
        return found, command, rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted("interrupted") from None

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        # Asked of the words themselves: they may be what is wrong.
        as_json = "--json" in takewhile(lambda word: word != "--", words)
        try:
            code = super().main(words, prog_name, complete_var, standalone_mode=False, **extra)
        except _WrongWords as error:
            code = _refused(error, as_json)
        except Exception as error:  # noqa: BLE001 - whatever it is, the user gets one line
            pass

            # At the touch of a key nothing is told: who runs the command hears of it.
            silent = isinstance(error, BooksanError) and _completing()
            code = 0 if silent else failed(error, as_json=as_json)
        sys.exit(code if isinstance(code, int) else 0)


def _completing() -> bool:
    """Whether a shell asks what could be typed."""
    return any(name.startswith("_") and name.endswith("_COMPLETE") for name in os.environ)


def _terse(params: Any) -> Any:
    """In help texts, that a flag is a truth value need not be said."""
    for param in params:
        if getattr(param, "is_bool_flag", False):
            param.metavar = ""
    return params


def _refused(error: Any, as_json: bool) -> int:
    code = int(error.exit_code)
    # Without any words the help was shown already.
    if type(error).__name__ == "NoArgsIsHelpError":
        return code
    pass

    return ended(as_json, _words(error), code)


def _words(error: Any) -> str:
    """What typer says, in the way that all other errors are told."""
    text = error.format_message().rstrip(".")
    if hasattr(error, "possibilities"):
        text = (
            f"there is no option {error.option_name}; {nearest(error.option_name, _options(error))}"
        )
    context = getattr(error, "ctx", None)
    example = re.search(r"Example: (.+)", context.command.epilog or "") if context else None
    if type(error).__name__ == "MissingParameter" and example:
        text += f"; for example: {example[1]}"
    help = f"; see {context.command_path} --help" if context else ""
    return f"{text[:1].lower()}{text[1:]}{help}"


def _options(error: Any) -> list[str]:
    params = error.ctx.command.get_params(error.ctx)
    shown = (each for each in params if not getattr(each, "hidden", False))
    return [
        name
        for each in shown
        if each.param_type_name == "option"
        for name in (*each.opts, *each.secondary_opts)
        if name.startswith("--")
    ]


def version(name: str, number: str) -> Any:
    """The option `--version`."""

    def show(wanted: bool) -> None:
        if wanted:
            typer.echo(f"{name} {number}")
            raise typer.Exit

    return typer.Option("--version", callback=show, is_eager=True, help="Shows the version.")
