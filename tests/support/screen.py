"""A command on a terminal that is not there: a pseudo-terminal, and a model of the screen.

with Screen([sys.executable, "-m", "booksan", "status"], columns=80, rows=24) as screen:
    screen.wait_for("no clients")
    assert screen.end() == 0
check_screen(screen.transcript)
"""

import os
import pty
import re
import select
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

import pyte

from booksan_common.terminal import REFLOWING

#: Seconds that anything may take, with the machine under load.
PATIENCE = 90.0
#: Lines that are kept of what has scrolled off the screen.
HISTORY = 5000
#: Seconds between two looks at whether the command has ended; what it writes is read at once.
LOOK = 0.05

#: Ctrl-C, as the terminal sends it: to all processes of the command.
CTRL_C = "\x03"

#: Colours, and not the bold or dim that NO_COLOR allows.
COLOUR = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9;]*)?m")

#: Makes the terminal on stdin the one that Ctrl-C at it is heard from.
_LOGIN = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execvp(sys.argv[1], sys.argv[1:])"
)


class Screen:
    """A command on a terminal of a given size; a thread reads what it writes."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        columns: int = 80,
        rows: int = 24,
        env: Mapping[str, str] | None = None,
        colour: bool = True,
        cwd: Path | None = None,
        stdout: IO[bytes] | int | None = None,
        stderr: IO[bytes] | int | None = None,
    ) -> None:
        """`stdout` and `stderr` are files or pipes in the place of the terminal."""
        self._model: Any = pyte.HistoryScreen(columns, rows, history=HISTORY, ratio=0.5)
        self._stream: Any = pyte.ByteStream(self._model)
        self._news = threading.Condition()
        self._raw = bytearray()
        self._frames: list[str] = []
        self._ended = threading.Event()
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (rows, columns))
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", _LOGIN, *map(str, command)],
            stdin=theirs,
            stdout=theirs if stdout is None else stdout,
            stderr=theirs if stderr is None else stderr,
            env=environment(env, colour=colour),
            cwd=cwd,
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, name="screen", daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing of the command may outlive the test."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._ended.set()
        self._reader.join()
        os.close(self._ours)

    @property
    def raw(self) -> bytes:
        """All bytes that came."""
        with self._news:
            return bytes(self._raw)

    @property
    def picture(self) -> str:
        """What is on the screen now."""
        with self._news:
            return self._picture()

    @property
    def history(self) -> str:
        """What has scrolled off the screen."""
        with self._news:
            return self._history()

    @property
    def transcript(self) -> str:
        """What has scrolled off the screen, and what is on it."""
        with self._news:
            return f"{self._history()}{self._picture()}"

    @property
    def frames(self) -> list[str]:
        """The different pictures so far, one for each time that the command had paused."""
        with self._news:
            return list(self._frames)

    def wait_for(self, text: str, patience: float = PATIENCE) -> str:
        """Until the text is on the screen, or has scrolled off it; returns the screen."""
        return self.wait_until(lambda: text in f"{self._history()}{self._picture()}", patience)

    def wait_until(self, true: Callable[[], bool], patience: float = PATIENCE) -> str:
        """Asks again whenever something has come."""
        with self._news:
            self._news.wait_for(lambda: true() or self._ended.is_set(), patience)
            assert true(), f"it did not come:\n{self._history()}{self._picture()}"
            return self._picture()

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        """As a window does: the command is told, and what does not fit any more is cut off."""
        with self._news:
            self._model.resize(rows, columns)
        termios.tcsetwinsize(self._ours, (rows, columns))

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self, patience: float = PATIENCE) -> int:
        """The exit code; from here on all that it wrote is on the screen."""
        try:
            code = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end:\n{self.transcript}") from None
        self._ended.set()
        self._reader.join()
        return code

    def _read(self) -> None:
        """Until the terminal is left by all, or by the command: hosts of a cluster may stay."""
        while True:
            ended = self._ended.is_set()
            if not self._wait_for_bytes(0 if ended else LOOK):
                self._keep_frame()
                if ended:
                    break
                continue
            try:
                piece = os.read(self._ours, 65536)
            except OSError:
                break
            with self._news:
                self._raw += piece
                self._stream.feed(piece)
                self._news.notify_all()
        self._keep_frame()
        self._ended.set()
        with self._news:
            self._news.notify_all()

    def _wait_for_bytes(self, seconds: float) -> bool:
        return bool(select.select([self._ours], [], [], seconds)[0])

    def _keep_frame(self) -> None:
        with self._news:
            picture = self._picture()
            if not self._frames or self._frames[-1] != picture:
                self._frames.append(picture)

    def _picture(self) -> str:
        lines = [self._line(self._model.buffer[y]) for y in range(self._model.lines)]
        return "\n".join(lines).rstrip("\n")

    def _history(self) -> str:
        return "".join(f"{self._line(line)}\n" for line in self._model.history.top)

    def _line(self, cells: Mapping[int, Any]) -> str:
        return "".join(cells[x].data for x in range(self._model.columns)).rstrip()


def environment(env: Mapping[str, str] | None = None, *, colour: bool = True) -> dict[str, str]:
    """That of a terminal, and nothing of the one that runs the tests."""
    own = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "CI", "TMUX")
    kept = {name: value for name, value in os.environ.items() if name not in (*own, *REFLOWING)}
    kept |= {"TERM": "xterm-256color", "LANG": "C.UTF-8", "PYTHONUTF8": "1"}
    return kept | ({} if colour else {"NO_COLOR": "1"}) | dict(env or {})


def check_screen(text: str, headings: Iterable[str] = ()) -> None:
    """Of a transcript at the end: whole tables, no bars, and headings in lines of their own."""
    check_tables(text)
    lines = text.splitlines()
    for line in lines:
        bar = line[:1] not in "┏┡" and any(sign in line for sign in "━╸╺")
        assert not bar, f"a bar has stayed: {line!r}\n{text}"
    for heading in headings:
        assert any(line.startswith(heading) for line in lines), f"no {heading!r} in\n{text}"
        glued = [line for line in lines if heading in line and not line.startswith(heading)]
        assert not glued, f"glued: {glued}\n{text}"


def check_tables(text: str) -> int:
    """Every table that begins ends, with both borders in every line; tells how many there are."""
    width, count = 0, 0
    for line in text.splitlines():
        if not width:
            assert not any(sign in line for sign in "┃│┡└"), f"part of a table: {line!r}\n{text}"
            if "┏" in line:
                assert line.startswith("┏"), f"glued to a table: {line!r}\n{text}"
                assert line.endswith("┓"), f"cut: {line!r}\n{text}"
                width, count = _width(line), count + 1
            continue
        ends = line[:1] + line[-1:]
        assert ends in ("┃┃", "┡┩", "││", "├┤", "└┘"), f"no line of a table: {line!r}\n{text}"
        assert _width(line) == width, f"another width: {line!r}\n{text}"
        if ends == "└┘":
            width = 0
    assert not width, f"a table without an end\n{text}"
    return count


def _width(line: str) -> int:
    """In cells of the terminal: some characters take two."""
    return sum(max(0, pyte.screens.wcwidth(sign)) for sign in line)
