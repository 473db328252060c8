"""Command lines that ask for the impossible, and places where nothing can be read or written."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from booksan.errors import BooksanError, RunFailed
from tests.acceptance.disk import Disk
from tests.acceptance.files import PARAMS, books_with, write_inputs
from tests.acceptance.inside import invoke, refuse
from tests.support.command import Place, Words, run_books, settings
from tests.support.inputs import check_answers


class Inputs(NamedTuple):
    place: Place
    books: Path
    reviews: Path

    def command(self, *more: str | Path) -> Words:
        return run_books(self.books, self.reviews, self.place.out, *more)


@pytest.fixture
def inputs(place: Place) -> Inputs:
    return Inputs(place, *write_inputs(place.root))


def fifo(inputs: Inputs) -> Words:
    inputs.books.unlink()
    os.mkfifo(inputs.books)
    return inputs.command()


def missing(inputs: Inputs) -> Words:
    inputs.reviews.unlink()
    return inputs.command()


def dangling(inputs: Inputs) -> Words:
    inputs.books.unlink()
    inputs.books.symlink_to("nowhere")
    return inputs.command()


def data_dir_with(name: str) -> Callable[[Inputs], Words]:
    def make(inputs: Inputs) -> Words:
        inputs.place.data.mkdir()
        (inputs.place.data / name).write_text("[]")
        return inputs.command("--data-dir", inputs.place.data)

    return make


def out_is(path: Callable[[Inputs], Path]) -> Callable[[Inputs], Words]:
    return lambda inputs: run_books(inputs.books, inputs.reviews, path(inputs))


def with_options(*options: str) -> Callable[[Inputs], Words]:
    return lambda inputs: inputs.command(*options)


def in_place_of_books(path: str) -> Callable[[Inputs], Words]:
    return lambda inputs: run_books(path, inputs.reviews, inputs.place.out)


REFUSED: dict[str, tuple[Callable[[Inputs], Words], int, str]] = {
    "missing file": (missing, 3, "reviews.csv: cannot be read: No such file"),
    "dangling link": (dangling, 3, "books.csv: cannot be read: No such file"),
    "directory": (in_place_of_books("/"), 3, "/: is a directory, not a file"),
    "empty path": (in_place_of_books(""), 3, "is a directory, not a file"),
    "path too long": (in_place_of_books("x" * 300), 3, "cannot be read: File name too long"),
    "fifo": (fifo, 3, "books.csv: is not a regular file"),
    "device": (in_place_of_books("/dev/null"), 3, "/dev/null: is not a regular file"),
    "unknown parameter": (with_options("--set", "q9.x=1"), 2, "no parameter 'q9.x'; known: q1"),
    "bad value": (with_options("--set", "q2.decades=ten"), 2, "a whole number, not 'ten'"),
    "value out of range": (with_options("--set", "q5.percentile=101"), 2, "between 0 and 100"),
    "not a number": (with_options("--set", "q5.percentile=nan"), 2, "between 0 and 100"),
    "setting without =": (with_options("--set", "q2.decades"), 2, "--set takes name=value"),
    "unknown format": (with_options("--format", "xml"), 2, "known: csv, json, parquet"),
    "unknown data set": (
        lambda i: ["run", "boks", i.books, "--out", "o"],
        2,
        "did you mean 'books'? known: aoe2, books",
    ),
    "one file": (
        lambda i: ["run", "books", i.books, "--out", "o"],
        2,
        "books (books_data.csv), reviews (Books_rating.csv); 1 given: ",
    ),
    "three files": (lambda i: [*i.command(), i.books], 2, "takes 2 files"),
    "out is a file": (out_is(lambda i: i.books), 2, "books.csv is not a directory; name another"),
    "out below a file": (out_is(lambda i: i.books / "x"), 2, "books.csv is not a directory"),
    "data is a file": (lambda i: i.command("--data-dir", i.books), 2, "cannot be used as data dir"),
    "data not ours": (data_dir_with("thesis.txt"), 2, "is not empty and not a data directory"),
    "data with a strange run.json": (
        data_dir_with("run.json"),
        2,
        "is not empty and not a data directory",
    ),
    "out is data": (lambda i: i.command("--data-dir", i.place.out), 2, "is emptied at the end"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_impossible_request_is_refused_with_one_line(name: str, inputs: Inputs) -> None:
    make, code, says = REFUSED[name]
    ended = refuse(inputs.place, make(inputs))
    assert ended.code == code
    assert says in ended.message


@pytest.mark.parametrize(
    ("option", "value"),
    [("--workers", "0"), ("--workers", "x"), ("--max-rejected", "-1"), ("--nonsense", "1")],
)
def test_an_impossible_option_is_named(option: str, value: str, inputs: Inputs) -> None:
    ended = refuse(inputs.place, inputs.command(option, value))
    assert ended.code == 2
    assert option in ended.message


def _without_privileges() -> list[str]:
    """Root may read and write everything; without these capabilities it is like anyone else."""
    if os.geteuid() != 0:
        return []
    found = shutil.which("setpriv")
    if found is None:
        pytest.skip("root can read everything, and there is no setpriv to drop that")
    return [found, "--bounding-set=-dac_override,-dac_read_search"]


def test_an_unreadable_file_is_refused(inputs: Inputs) -> None:
    inputs.reviews.chmod(0)
    ended = inputs.place.run(inputs.command(), before=_without_privileges())
    assert ended.code == 3
    assert f"{inputs.reviews}: cannot be read: Permission denied" in ended.message
    assert not inputs.place.leftovers()


@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_an_unwritable_out_is_refused_before_the_work(below: str, inputs: Inputs) -> None:
    inputs.place.out.mkdir(0o500)
    command = run_books(inputs.books, inputs.reviews, inputs.place.out / below)
    ended = inputs.place.run(command, before=_without_privileges())
    assert ended.code == 2
    assert f"{inputs.place.out} is not writable; name another one with --out" in ended.message
    assert not inputs.place.leftovers()


def test_an_unwritable_state_directory_is_refused(inputs: Inputs) -> None:
    inputs.place.state.mkdir(0o500)
    ended = inputs.place.run(inputs.command(), before=_without_privileges())
    assert ended.code == 2
    assert "Permission denied; name another one with --data-dir" in ended.message


def test_too_many_rejected_rows_end_the_run_and_a_higher_limit_goes_on(inputs: Inputs) -> None:
    inputs.books.write_bytes(books_with(b"too few\n", b"fields\n"))
    ended = inputs.place.run(inputs.command("--max-rejected", "1", *settings(PARAMS)))
    assert ended.code == 4
    assert "2 rows were rejected, 1 allowed (--max-rejected)" in ended.err
    ended = inputs.place.run(inputs.command("--max-rejected", "2", "--json", *settings(PARAMS)))
    assert ended.code == 0, ended.err
    assert ended.document["resumed"]
    check_answers(inputs.place.out, inputs.books, inputs.reviews, PARAMS)
    assert not inputs.place.leftovers()


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (
            RuntimeError("a bug"),
            1,
            "internal error: RuntimeError('a bug'); the details are in {log}",
        ),
        (OSError(errno.EIO, "I/O error", "f.db"), 1, "f.db: I/O error; the details are in {log}"),
        (BooksanError("no supervisor"), 1, "no supervisor; the details are in {log}"),
        (RunFailed("q2-decades.0 lost a batch"), 5, "q2-decades.0 lost a batch"),
    ],
)
def test_a_run_that_breaks_tells_the_cause_and_where_the_details_are(
    error: Exception, code: int, says: str, inputs: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr("booksan.local.run.run", broken)
    ended = invoke(inputs.place, inputs.command())
    log = inputs.place.state / "booksan" / "error.log"
    assert (ended.code, ended.message) == (code, says.format(log=log))
    assert log.exists() == (code == 1)
    assert code != 1 or repr(error).partition("(")[0] in log.read_text("utf-8")


@pytest.mark.parametrize("full", [False, True])
def test_no_space_for_the_data_ends_the_run_and_room_lets_it_go_on(
    full: bool, inputs: Inputs, disk: Disk
) -> None:
    data = disk.path / "data"
    command = inputs.command("--data-dir", data, *settings(PARAMS))
    filler = disk.fill() if full else None
    ended = inputs.place.run(command)
    assert ended.code == 6
    assert f"{disk.path}" in ended.message
    assert "no space left" in ended.message
    assert "then the same command goes on" in ended.message
    if filler is not None:
        filler.unlink()
    disk.resize("64m")
    assert inputs.place.run(command).code == 0
    check_answers(inputs.place.out, inputs.books, inputs.reviews, PARAMS)


def test_no_space_for_the_answers_ends_the_run_and_room_lets_it_go_on(
    inputs: Inputs, disk: Disk
) -> None:
    out = disk.path / "out"
    out.mkdir()
    filler = disk.fill()
    command = run_books(inputs.books, inputs.reviews, out, *settings(PARAMS))
    ended = inputs.place.run(command)
    assert ended.code == 6
    assert f"{out}" in ended.message
    assert "no space left" in ended.message
    assert not list(out.iterdir())
    filler.unlink()
    ended = inputs.place.run([*command, "--json"])
    assert ended.code == 0
    assert ended.document["resumed"]
    check_answers(out, inputs.books, inputs.reviews, PARAMS)
    assert not inputs.place.leftovers()


def test_a_data_directory_of_someone_else_is_left_as_it_is(inputs: Inputs) -> None:
    refuse(inputs.place, data_dir_with("thesis.txt")(inputs))
    assert [path.name for path in inputs.place.data.iterdir()] == ["thesis.txt"]


def test_a_data_directory_that_a_kill_left_half_made_is_used(inputs: Inputs) -> None:
    command = data_dir_with(".run.json.tmp")(inputs)
    (inputs.place.data / "run.lock").touch()
    assert inputs.place.run([*command, *settings(PARAMS)]).code == 0
    check_answers(inputs.place.out, inputs.books, inputs.reviews, PARAMS)
