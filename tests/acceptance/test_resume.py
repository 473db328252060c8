"""Whatever is stopped or killed, the same command ends with the same answers."""

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from booksan.generate.books import generate_books
from tests.acceptance.inside import invoke
from tests.oracle.books import answers
from tests.support.command import QUERIES, Ended, Place, Words, run_books, settings, wait_until
from tests.support.inputs import check_answers

PARAMS = {"q2.decades": 3, "q3.min_reviews": 5, "q5.percentile": 80}


class Data(NamedTuple):
    """Inputs that take some seconds, and what the oracle makes of them."""

    books: Path
    reviews: Path
    expected: dict[str, bytes]

    def command(self, place: Place, *more: str | Path) -> Words:
        # Small batches, so that there is a middle in which to die.
        small = ("--batch-bytes", "20000", "--workers", "2", *settings(PARAMS))
        return run_books(self.books, self.reviews, place.out, *small, *more)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    root = tmp_path_factory.mktemp("data")
    books, reviews = generate_books(root, books=250, reviews=2_000, seed=7, dirty=True).paths
    return Data(books, reviews, answers(books, reviews, PARAMS))


def found(place: Place, pattern: str, words: bytes = b"") -> bool:
    """Whether a file holds these words; files and directories may vanish under our eyes."""
    try:
        return any(words in path.read_bytes() for path in place.root.glob(pattern))
    except FileNotFoundError:
        return False


#: Things that can be seen from outside while a run goes on.
MOMENTS: dict[str, Callable[[Place], bool]] = {
    "begun": lambda place: found(place, "state/booksan/runs/*/run.json"),
    "first batch of books": lambda place: found(place, "**/books.journal", b'"taken":0'),
    "first batch of reviews": lambda place: found(place, "**/reviews.journal", b'"taken":0'),
    "many batches of reviews": lambda place: found(place, "**/reviews.journal", b'"taken":40'),
    "first answer": lambda place: found(place, "out/q*.csv"),
    "last answer": lambda place: found(place, "out/q5.csv"),
}


class Tree(NamedTuple):
    """The processes of a command."""

    driver: psutil.Process
    supervisor: psutil.Process
    workers: list[psutil.Process]


def tree(process: "subprocess.Popen[bytes]") -> Tree:
    driver = psutil.Process(process.pid)
    wait_until(lambda: driver.children() and driver.children()[0].children())
    supervisor = driver.children()[0]
    # On Linux the first is the one that the others are forked from.
    server = sys.platform == "linux"
    wait_until(lambda: len(supervisor.children()) > server)
    children = sorted(supervisor.children(), key=lambda each: each.create_time())
    return Tree(driver, supervisor, children[server:])


def kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


def check_completed(ended: Ended, data: Data, place: Place) -> None:
    assert ended.code == 0, ended.err
    assert {name: (place.out / f"{name}.csv").read_bytes() for name in QUERIES} == data.expected
    assert not place.leftovers()


def reach(place: Place, process: "subprocess.Popen[bytes]", moment: str) -> None:
    wait_until(lambda: MOMENTS[moment](place) or process.poll() is not None)
    assert process.poll() is None, "it ended before it could be disturbed"


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGINT, "first batch of reviews"),
        (signal.SIGTERM, "first batch of books"),
        (signal.SIGTERM, "many batches of reviews"),
    ],
)
def test_a_signal_stops_cleanly_and_the_same_command_goes_on(
    number: signal.Signals, moment: str, data: Data, place: Place
) -> None:
    with place.started(data.command(place)) as process:
        reach(place, process, moment)
        process.send_signal(number)
        ended = place.ended(process)
    assert ended.code == 130
    assert ended.message == "interrupted; the same command goes on where it was"
    assert place.leftovers()
    ended = place.run(data.command(place, "--json"))
    assert ended.document["resumed"] is True
    check_completed(ended, data, place)


def test_an_interrupted_command_with_json_prints_json(data: Data, place: Place) -> None:
    with place.started(data.command(place, "--json")) as process:
        reach(place, process, "begun")
        process.send_signal(signal.SIGINT)
        ended = place.ended(process)
    assert ended.document == {"error": ended.message, "exit_code": 130}


@pytest.mark.parametrize(
    ("whole_tree", "moment"),
    [
        (False, "begun"),
        (False, "many batches of reviews"),
        (True, "first batch of books"),
        (True, "first batch of reviews"),
        (True, "first answer"),
    ],
)
def test_after_kill_9_the_same_command_completes(
    whole_tree: bool, moment: str, data: Data, place: Place
) -> None:
    with place.started(data.command(place)) as process:
        reach(place, process, moment)
        kill(place.processes() if whole_tree else [psutil.Process(process.pid)])
        process.wait()
        # At once: what is left of the killed one must not be in the way.
        ended = place.run(data.command(place, "--json"))
    assert ended.document["resumed"] is True
    check_completed(ended, data, place)


def test_a_kill_in_the_last_moment_leaves_nothing_behind_after_the_next_run(
    data: Data, place: Place
) -> None:
    with place.started(data.command(place)) as process:
        wait_until(lambda: MOMENTS["last answer"](place))
        kill(place.processes())
        process.wait()
    check_completed(place.run(data.command(place)), data, place)


def test_killed_again_and_again_it_still_completes(data: Data, place: Place) -> None:
    for moment in ("begun", "first batch of books", "many batches of reviews"):
        with place.started(data.command(place)) as process:
            reach(place, process, moment)
            kill(place.processes())
            process.wait()
    check_completed(place.run(data.command(place)), data, place)


def test_a_killed_worker_is_nobodys_business(data: Data, place: Place) -> None:
    with place.started(data.command(place, "--json")) as process:
        reach(place, process, "first batch of reviews")
        random.Random(1).choice(tree(process).workers).kill()
        ended = place.ended(process)
    assert ended.document["restarts"] >= 1
    assert ended.document["resumed"] is False
    check_completed(ended, data, place)


def test_a_killed_supervisor_is_started_again(data: Data, place: Place) -> None:
    with place.started(data.command(place, "--json")) as process:
        reach(place, process, "first batch of reviews")
        tree(process).supervisor.kill()
        ended = place.ended(process)
    assert "booksan: the supervisor was killed; starting it again" in ended.err
    assert ended.document["restarts"] >= 1
    check_completed(ended, data, place)


def test_a_file_that_changed_meanwhile_is_begun_anew(data: Data, place: Place) -> None:
    own = Data(
        Path(shutil.copy(data.books, place.root / "books.csv")),
        Path(shutil.copy(data.reviews, place.root / "reviews.csv")),
        {},
    )
    with place.started(own.command(place)) as process:
        reach(place, process, "first batch of reviews")
        kill(place.processes())
        process.wait()
    lines = own.reviews.read_bytes().splitlines(keepends=True)
    own.reviews.write_bytes(b"".join(lines[: len(lines) // 4]))
    ended = place.run(own.command(place, "--json"))
    assert ended.code == 0, ended.err
    assert ended.document["resumed"] is False
    check_answers(place.out, own.books, own.reviews, PARAMS)
    assert not place.leftovers()


def test_a_data_directory_of_another_run_is_refused_and_kept(data: Data, place: Place) -> None:
    words = data.command(place, "--data-dir", place.data)
    with place.started(words) as process:
        reach(place, process, "first batch of books")
        process.terminate()
        place.ended(process)
    ended = invoke(place, [*words, "--set", "q4.top=3"])
    assert ended.code == 2
    assert f"{place.data} belongs to an unfinished run with other files" in ended.message
    ended = place.run([*words, "--json"])
    assert ended.document["resumed"] is True
    check_completed(ended, data, place)


def test_a_second_command_on_the_same_run_is_refused(data: Data, place: Place) -> None:
    with place.started(data.command(place)) as process:
        reach(place, process, "first batch of books")
        # It holds still, so that it cannot be done before the second one looks.
        process.send_signal(signal.SIGSTOP)
        second = invoke(place, data.command(place))
        process.send_signal(signal.SIGCONT)
        ended = place.ended(process)
    assert second.code == 2
    assert "another booksan is working on this run" in second.message
    check_completed(ended, data, place)


def test_a_change_that_shows_in_neither_size_nor_time_is_found_and_a_new_run_is_begun(
    data: Data, place: Place
) -> None:
    place.root.mkdir(parents=True, exist_ok=True)
    books, reviews = (shutil.copy2(path, place.root) for path in (data.books, data.reviews))
    own = Data(Path(books), Path(reviews), {})
    with place.started(own.command(place)) as process:
        reach(place, process, "many batches of reviews")
        kill([tree(process).driver])
    wait_until(lambda: not place.processes())
    before = own.reviews.stat()
    content = own.reviews.read_bytes()
    # Within what was sent, and far from the ends that a fingerprint looks at.
    at = content.index(b" the ", len(content) // 3)
    own.reviews.write_bytes(content[:at] + b" eht " + content[at + 5 :])
    os.utime(own.reviews, ns=(before.st_atime_ns, before.st_mtime_ns))
    refused = place.run(own.command(place, "--json"))
    assert refused.code == 3, refused.err
    assert "has changed since the run began" in refused.document["error"]
    assert not list(place.out.glob("q*"))
    ended = place.run(own.command(place, "--json"))
    assert ended.document["resumed"] is False
    check_completed(ended, own._replace(expected=answers(own.books, own.reviews, PARAMS)), place)
