"""What a person at a terminal sees of a run, while it goes and when it is done."""

import csv
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from booksan.generate.books import generate_books
from booksan.host.status import read_status
from tests.support.command import PATIENCE, QUERIES, Ended, Place, Words, run_books, wait_until
from tests.support.screen import COLOUR, CTRL_C, Screen, check_screen, check_tables, environment

#: Answers of which some are longer than what is shown, and none is empty.
SETTINGS = ("--set", "q2.decades=5", "--set", "q3.min_reviews=50")
HEADINGS = [f"{query}: " for query in QUERIES]
#: What steers a terminal.
STEERING = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")

#: Columns, rows, and whether there are colours.
SIZES = [
    pytest.param(80, 24, True, id="80x24-colour"),
    pytest.param(120, 50, False, id="120x50-plain"),
]


@dataclass(frozen=True)
class Files:
    books: Path
    reviews: Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    made = generate_books(tmp_path_factory.mktemp("data"), books=1_500, reviews=20_000, seed=1)
    return Files(*made.paths)


@pytest.fixture
def words(files: Files, place: Place) -> Words:
    """Small batches, so that there is a way to be seen."""
    more = ("--batch-bytes", "200000", "--workers", "1")
    return run_books(files.books, files.reviews, place.out, *SETTINGS, *more)


def on_screen(
    place: Place, words: Words, columns: int = 80, rows: int = 24, **more: object
) -> Screen:
    return Screen(
        [sys.executable, "-m", "booksan", *words],
        columns=columns,
        rows=rows,
        env={"XDG_STATE_HOME": str(place.state)},
        **more,  # type: ignore[arg-type]
    )


def answers(place: Place) -> dict[str, list[dict[str, str]]]:
    found = {}
    for query in QUERIES:
        with (place.out / f"{query}.csv").open(newline="", encoding="utf-8") as file:
            found[query] = list(csv.DictReader(file))
    return found


def check_answers(text: str, place: Place) -> None:
    """Each as a table with a heading, and told how much of it is not here."""
    found = answers(place)
    assert check_tables(text) == len(QUERIES)
    for query, rows in found.items():
        assert rows
        words = text[text.index(f"{query}: ") :]
        end = words[words.index("└") :].splitlines()[1]
        hidden = len(rows) - 10
        assert end.startswith(f"and {hidden:,} more") == (hidden > 0), end
    assert any(len(rows) > 10 for rows in found.values())
    # On the screen rounded for people, in the file with all digits.
    score = found["q4"][0]["mean_score"]
    assert len(score) > len("4.1234"), "nothing to round"
    assert f" {float(score):.4f} " in text
    assert score not in text
    assert "with all digits" in text


def bars_of(picture: str) -> list[str]:
    """The lines from that of the whole run on; all of them belong to the one block of bars."""
    lines = picture.splitlines()
    heads = [place for place, line in enumerate(lines) if line.startswith("whole run")]
    assert len(heads) <= 1, picture
    return lines[heads[0] :] if heads else []


def check_frames(screen: Screen) -> None:
    seen: list[int] = []
    blocks = [bars for picture in screen.frames if (bars := bars_of(picture))]
    assert len(blocks) > 3, "it goes by unseen"
    for bars in blocks:
        assert all(re.match(r"whole run|upload |q\d-|results|and \d+ more", line) for line in bars)
        if percent := re.search(r" (\d+) % after ", bars[0]):
            seen.append(int(percent[1]))
    assert seen == sorted(seen), "it never falls"
    assert any(0 < percent < 100 for percent in seen)
    # What nobody can know the total of has no bar.
    unknown = [line for bars in blocks for line in bars if re.search("so far|waiting", line)]
    assert unknown
    assert not any(sign in line for line in unknown for sign in "━╸╺")


@pytest.mark.parametrize(("columns", "rows", "colour"), SIZES)
def test_a_run_shows_bars_while_it_goes_and_leaves_whole_answers(
    place: Place, words: Words, columns: int, rows: int, colour: bool
) -> None:
    with on_screen(place, words, columns, rows, colour=colour) as screen:
        assert screen.end() == 0
    check_screen(screen.transcript, HEADINGS)
    check_answers(screen.transcript, place)
    check_frames(screen)
    assert bool(COLOUR.search(screen.raw)) == colour
    said = " ".join(screen.transcript.split())
    assert re.search(r"booksan: 1,500 books, 20,000 reviews in .* the answers are in /", said)
    # Wrapped between words, as far as they fit.
    end = screen.transcript[screen.transcript.index("booksan: 1,500") :].splitlines()
    assert any(line.endswith(str(place.out)) for line in end) or len(str(place.out)) > columns


@pytest.mark.parametrize(("columns", "rows"), [(40, 24), (80, 10), (40, 10)])
def test_a_small_terminal_breaks_nothing(
    place: Place, words: Words, columns: int, rows: int
) -> None:
    with on_screen(place, words, columns, rows) as screen:
        assert screen.end() == 0
    check_screen(screen.transcript, HEADINGS)
    assert check_tables(screen.transcript) == len(QUERIES)
    assert all(len(bars_of(picture)) <= max(3, rows // 2) for picture in screen.frames)


def test_after_ctrl_c_the_bars_begin_where_they_were(place: Place, words: Words) -> None:
    def sent(picture: str) -> int:
        found = re.search(r"^upload reviews.*$", picture, re.M)
        return found.group().count("━") if found else 0

    with on_screen(place, words, 100, colour=False) as screen:
        screen.wait_until(lambda: sent(screen._picture()) >= 8)
        screen.press(CTRL_C)
        assert screen.end() == 130
    check_screen(screen.transcript)
    assert "interrupted" in screen.transcript
    with on_screen(place, words, 100, colour=False) as screen:
        assert screen.end() == 0
    first = next(picture for picture in screen.frames if "upload reviews" in picture)
    assert sent(first) >= 4, first
    assert "booksan: going on where the last run" in screen.transcript
    check_screen(screen.transcript, HEADINGS)
    check_answers(screen.transcript, place)


def test_answers_into_a_pipe_and_bars_on_the_terminal(place: Place, words: Words) -> None:
    with tempfile.TemporaryFile() as out:
        with on_screen(place, words, stdout=out) as screen:
            assert screen.end() == 0
        out.seek(0)
        piped = out.read()
    assert not STEERING.search(piped)
    check_screen(piped.decode(), HEADINGS)
    check_answers(piped.decode(), place)
    check_frames(screen)
    assert screen.transcript.startswith("booksan: 1,500 books"), "and nothing else has stayed"


def test_answers_on_the_terminal_and_notes_into_a_pipe(place: Place, words: Words) -> None:
    with tempfile.TemporaryFile() as err:
        with on_screen(place, words, stderr=err) as screen:
            assert screen.end() == 0
        err.seek(0)
        piped = err.read()
    assert not STEERING.search(piped)
    assert b"whole run" not in screen.raw
    assert re.fullmatch(rb"(booksan: .*\n)+", piped), piped
    check_screen(screen.transcript, HEADINGS)
    check_answers(screen.transcript, place)


def test_wholly_in_pipes_nothing_steers_a_terminal(place: Place, words: Words) -> None:
    done: Ended = place.run(words, env={"TERM": "xterm-256color", "COLORTERM": "truecolor"})
    assert done.code == 0
    assert not STEERING.search((done.out + done.err).encode())
    check_screen(done.out, HEADINGS)
    check_answers(done.out, place)
    assert re.fullmatch(r"(booksan: .*\n)+", done.err)


def _seconds(picture: str) -> str | None:
    """What the line about the whole run tells, wherever it is broken."""
    found = re.search(r"after (\d+ s)", "".join(picture.split("\n")))
    return found[1] if found else None


def _worker(place: Place, name: str) -> int:
    """The process of a worker of the run, as soon as it is at work."""

    def found() -> list[int]:
        reports = map(read_status, place.state.glob("booksan/runs/*"))
        workers = (worker for report in reports if report for worker in report.workers)
        return [worker.pid for worker in workers if worker.name == name and worker.pid]

    wait_until(found)
    return found()[0]


def test_a_window_made_wider_and_narrower_leaves_whole_tables(place: Place, words: Words) -> None:
    """What is printed after the change fits; this terminal cuts what was there, as xterm does."""
    with on_screen(place, words, 120, 40, colour=False) as screen:
        # No answer can come, and be cut with the rest, while the window changes.
        home = _worker(place, "results.0")
        os.kill(home, signal.SIGSTOP)
        screen.wait_until(lambda: _seconds(screen._picture()) is not None)
        screen.resize(60, 24)
        before = _seconds(screen._picture())
        screen.wait_until(lambda: _seconds(screen._picture()) not in (before, None))
        os.kill(home, signal.SIGCONT)
        screen.wait_for("q1: ")
        screen.resize(100, 30)
        assert screen.end() == 0
    check_screen(screen.transcript, HEADINGS)
    check_answers(screen.transcript, place)


@dataclass(frozen=True)
class Tmux:
    """A real terminal, which breaks lines anew when it gets narrower."""

    socket: Path
    env: dict[str, str]

    def __call__(self, *words: str) -> str:
        command = ["tmux", "-S", str(self.socket), *words]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=PATIENCE, env=self.env
        )
        return done.stdout

    def picture(self) -> str:
        return self("capture-pane", "-p", "-t", "one")

    def transcript(self) -> str:
        """With the lines joined again that it has broken."""
        text = self("capture-pane", "-p", "-J", "-S", "-", "-t", "one")
        return "\n".join(line.rstrip() for line in text.splitlines())


@pytest.fixture
def tmux(place: Place) -> Iterator[Tmux]:
    if not shutil.which("tmux"):
        pytest.skip("there is no tmux: apt-get install tmux")
    # A socket's path must be short.
    with tempfile.TemporaryDirectory() as directory:
        env = environment({"XDG_STATE_HOME": str(place.state)}, colour=False)
        found = Tmux(Path(directory) / "s", env)
        try:
            yield found
        finally:
            subprocess.run(["tmux", "-S", found.socket, "kill-server"], check=False)


def test_in_a_terminal_that_reflows_bars_do_not_stay_behind(
    place: Place, words: Words, tmux: Tmux
) -> None:
    def shows(text: str) -> Callable[[], bool]:
        return lambda: text in tmux.transcript()

    line = shlex.join([sys.executable, "-m", "booksan", *map(str, words)])
    script = f"{line}; echo ended with $?; cat"
    tmux("-f", os.devnull, "new-session", "-d", "-s", "one", "-x", "100", "-y", "40", script)
    # Without its last stage the run cannot end while the window changes.
    last = _worker(place, "q5-percentile.0")
    os.kill(last, signal.SIGSTOP)
    wait_until(shows("q2: "))
    wait_until(shows(" % after"))
    for columns in ("60", "110", "50"):
        tmux("resize-window", "-t", "one", "-x", columns, "-y", "40")
        # Painted anew at least once: what is on its way while a window changes cannot be helped.
        before = _seconds(tmux.picture())
        wait_until(lambda before=before: _seconds(tmux.picture()) != before)  # type: ignore[misc]
    # Where that took a minute it was killed as one that hangs, and the run went on.
    with suppress(ProcessLookupError):
        os.kill(last, signal.SIGCONT)
    wait_until(shows("ended with 0"))
    check_screen(tmux.transcript(), HEADINGS)
    assert "whole run" not in tmux.transcript()
    check_answers(tmux.transcript(), place)


def test_only_the_query_that_is_named_is_shown_and_written(place: Place, words: Words) -> None:
    with on_screen(place, [*words, "--query", "q4"]) as screen:
        assert screen.end() == 0
    check_screen(screen.transcript, ["q4: "])
    assert check_tables(screen.transcript) == 1
    assert {path.name for path in place.out.iterdir()} == {".booksan", "q4.csv"}
    done = place.run([*words, "--query", "q2", "--query", "q1", "--json"])
    assert set(done.document["answers"]) == {"q1", "q2"}
    assert {path.name for path in place.out.iterdir()} == {".booksan", "q1.csv", "q2.csv"}
    refused = place.run([*words, "--query", "q22"])
    assert (refused.code, refused.message) == (
        2,
        "there is no query 'q22'; did you mean 'q2'? known: q1, q2, q3, q4, q5",
    )


def test_quiet_shows_nothing_but_errors(place: Place, words: Words) -> None:
    with on_screen(place, [*words, "--quiet"]) as screen:
        assert screen.end() == 0
    assert screen.transcript == ""
    assert len(answers(place)) == len(QUERIES)
    with on_screen(place, [*words, "--quiet", "--format", "x"]) as screen:
        assert screen.end() == 2
    assert screen.transcript.startswith("booksan: no format 'x'; known: csv, json, parquet")
