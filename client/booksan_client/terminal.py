"""All that is shown to a person goes through here: data must never steer the terminal."""

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

#: Escapes and other control characters, line separators, what turns the direction of writing or
#: cannot be seen, and halves of characters.
_STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]+"
)
_STEERING_IN_LINES = re.compile(f"(?!\n){_STEERING.pattern.removesuffix('+')}")


def plain(text: object) -> str:
    """One line in which nothing steers a terminal; files and JSON have everything as it is."""
    return _STEERING.sub(" ", str(text))


def shown(value: object, style: str = "") -> Text:
    """A value of any kind as a cell, or a line."""
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    return Text(plain(value), style)


def say(text: object, *, err: bool = False) -> None:
    """One line, for commands that show no more than that."""
    stream = sys.stderr if err else sys.stdout
    stream.write(f"{plain(text)}\n")
    stream.flush()


class PatientConsole(Console):
    """The only console: what is printed on it cannot steer the terminal, and is no markup.

    It falls silent when its output cannot be written: the run and its files matter more.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False} | options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Colours and movements are rich's own and no part of any text."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                text = _STEERING_IN_LINES.sub(" ", segment.text)
                yield segment if text == segment.text else Segment(text, segment.style)

    def print(self, *objects: Any, **options: Any) -> None:
        try:
            super().print(*objects, **options)
        except OSError:
            self._fall_silent()

    def on_broken_pipe(self) -> None:
        """Instead of ending the process, which rich does."""
        self._fall_silent()

    def _fall_silent(self) -> None:
        self.quiet = True
        mute(self.file)


def mute(stream: IO[str]) -> None:
    """Lets a stream that cannot be written any more be flushed without an error at exit."""
    with Path(os.devnull).open("w") as sink:
        os.dup2(sink.fileno(), stream.fileno())
