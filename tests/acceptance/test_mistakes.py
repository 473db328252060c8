"""Mistakes that people make in commands and files: each is told as what it is, and what to do."""

import bz2
import gzip
import io
import lzma
import shlex
import shutil
import sqlite3
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
import zstandard

from booksan.generate import generator_named
from tests.acceptance.files import BOOKS, REVIEWS
from tests.acceptance.inside import invoke, refuse
from tests.support.command import Place, Words


@dataclass(frozen=True)
class Mistake:
    """Words of a command, typed in a directory with good files, and what the message must hold."""

    words: str
    says: tuple[str, ...]
    code: int = 2


COMMANDS = {
    "a command": Mistake("rn books", ("no command 'rn'; did you mean 'run'? known: bench, ",)),
    "a subcommand": Mistake("cluster stat", ("no command 'stat'; did you mean 'status'?",)),
    "an option": Mistake(
        "run books books.csv reviews.csv --oot x",
        ("no option --oot; did you mean '--out'?", "known: --data-dir, --format", "run --help"),
    ),
    "no place for answers": Mistake(
        "run books books.csv reviews.csv",
        ("missing option '--out'", "for example: booksan run books books_data.csv"),
    ),
    "no words at all": Mistake("run", ("missing argument 'DATASET'; for example: booksan run",)),
    "a word where a number belongs": Mistake(
        "run books books.csv reviews.csv --out x --workers many", ("'--workers'",)
    ),
    "a data set": Mistake(
        "run Boks books.csv reviews.csv --out x",
        ("no data set 'Boks'; did you mean 'books'? known: aoe2, books",),
    ),
    "no data set": Mistake(
        "run books.csv reviews.csv --out x",
        ("books.csv looks like a file", "the name of the data set comes before", "known: aoe2"),
    ),
    "a parameter": Mistake(
        "run books books.csv reviews.csv --out x --set min_reviews=5",
        ("no parameter 'min_reviews'; did you mean 'q3.min_reviews'? known: q1.category",),
    ),
    "a format": Mistake(
        "run books books.csv reviews.csv --out x --format parket",
        ("no format 'parket'; did you mean 'parquet'? known: csv, json",),
    ),
    "a topology": Mistake("host --config thre", ("'thre'; did you mean 'three'? known: ",)),
    "a host": Mistake("host --config three --name aplha", ("did you mean 'alpha'?",)),
    "a stage": Mistake("host --stages q3_join", ("did you mean 'q3-join'? known: q1-filter",)),
    "a target": Mistake("chaos --target wroker", ("did you mean 'worker'? known: broker",)),
    "a data set to generate": Mistake("generate stem --out x", ("did you mean 'steam'?",)),
    "an option of generate": Mistake(
        "generate books --out x --revews 3", ("no --revews; did you mean '--reviews'?",)
    ),
    "a contestant": Mistake("bench books --only duckbd", ("did you mean 'duckdb'?",)),
    "a client": Mistake("results nobody --out x", ("no client 'nobody' is known here",)),
    "a letter": Mistake("letters show abc", ("no letter begins with 'abc'", "letters list")),
    "one file": Mistake(
        "run books books.csv --out x",
        ("books (books_data.csv), reviews (Books_rating.csv); 1 given: books.csv",),
    ),
    "three files": Mistake(
        "run books books.csv reviews.csv x.csv --out x", ("takes 2 files in this order", "3 given")
    ),
    "no server": Mistake(
        "submit books books.csv reviews.csv --out x --server http://127.0.0.1:1 --patience 0",
        ("http://127.0.0.1:1: Connection refused",),
        code=7,
    ),
}


@pytest.fixture
def desk(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Where the commands are typed."""
    monkeypatch.chdir(place.root)
    Path("books.csv").write_bytes(BOOKS)
    Path("reviews.csv").write_bytes(REVIEWS)
    return place


@pytest.mark.parametrize("name", COMMANDS)
def test_a_mistake_in_a_command_is_told(name: str, desk: Place) -> None:
    mistake = COMMANDS[name]
    words = shlex.split(mistake.words)
    # `host` runs until it is stopped, so it has no document to print.
    ended = invoke(desk, words) if words[0] == "host" else refuse(desk, words)
    assert ended.code == mistake.code
    for says in mistake.says:
        assert says in ended.message
    assert not Path("x").exists()


def zipped(entries: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return target.getvalue()


def tarred(mode: str) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode=mode) as archive:  # type: ignore[call-overload]
        entry = tarfile.TarInfo("out.csv")
        entry.size = len(BOOKS)
        archive.addfile(entry, io.BytesIO(BOOKS))
    return target.getvalue()


def parquet() -> bytes:
    target = io.BytesIO()
    pl.read_csv(BOOKS, infer_schema=False).write_parquet(target)
    return target.getvalue()


def lines_of_json() -> bytes:
    target = io.BytesIO()
    pl.read_csv(BOOKS, infer_schema=False).write_ndjson(target)
    return target.getvalue()


def database() -> bytes:
    with sqlite3.connect(":memory:") as db:
        db.execute("CREATE TABLE books (title)")
        return db.serialize()


@dataclass(frozen=True)
class Wrong:
    """A file in place of the books, what the message must hold, and what its advice makes."""

    file: str
    content: Callable[[], bytes]
    says: str
    #: What to type; {file} is the file.
    advice: str = ""
    makes: str = ""
    needs: str = "sh"


WRONG = {
    "Parquet": Wrong("in put.parquet", parquet, "is a Parquet file, which", " -c ", "in put.csv"),
    "JSON in lines": Wrong("in.jsonl", lines_of_json, "is JSON in lines", " -c ", "in.csv"),
    "JSON": Wrong("in.json", lambda: b'[{"Title": "x"}]', "is JSON, which booksan cannot read"),
    "Excel": Wrong("in.xlsx", lambda: zipped({"xl/workbook.xml": b""}), "save its sheet as CSV"),
    "old Excel": Wrong("in.xls", lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1xx", "a spreadsheet"),
    "zip": Wrong(
        "in put.zip",
        lambda: zipped({"readme.txt": b"", "deep/out.csv": BOOKS}),
        "is a zip archive; take the file out",
        "unzip -p {file} deep/out.csv > out.csv",
        "out.csv",
        "unzip",
    ),
    "half a zip": Wrong("in.zip", lambda: zipped({"a.csv": BOOKS})[:90], "cut short; fetch it"),
    "bzip2": Wrong(
        "out.csv.bz2", lambda: bz2.compress(BOOKS), "bzip2", "bzip2 -dk {file}", "out.csv", "bzip2"
    ),
    "xz": Wrong("out.csv.xz", lambda: lzma.compress(BOOKS), "xz", "xz -dk {file}", "out.csv", "xz"),
    "zstd": Wrong(
        "out.csv.zst",
        lambda: zstandard.compress(BOOKS),
        "compressed with zstd, and booksan reads only gzip",
        "zstd -d {file}",
        "out.csv",
        "zstd",
    ),
    "gzip twice": Wrong(
        "in.csv.gz",
        lambda: gzip.compress(gzip.compress(BOOKS)),
        "gzip twice",
        "gzip -dc {file} > in.csv.csv.gz",
        "in.csv.csv.gz",
        "gzip",
    ),
    "tar": Wrong("in.tar", lambda: tarred("w"), "tar archive", "tar -xf {file}", "out.csv", "tar"),
    "tar.gz": Wrong(
        "in.tgz", lambda: tarred("w:gz"), "tar archive", "tar -xf {file}", "out.csv", "tar"
    ),
    "SQLite": Wrong("in.db", database, "is an SQLite database; make CSV of one table"),
    "a web page": Wrong("in.csv", lambda: b"<!DOCTYPE html>\n<html>", "web page"),
    "UTF-16": Wrong(
        "in.csv",
        lambda: BOOKS.decode().encode("utf-16"),
        "looks like UTF-16",
        "iconv -f UTF-16 -t UTF-8 {file} > in.utf8.csv",
        "in.utf8.csv",
        "iconv",
    ),
    "binary": Wrong("in.csv", lambda: bytes(range(256)), "zero bytes: not a CSV file in UTF-8"),
    "semicolons": Wrong("in.csv", lambda: BOOKS.replace(b",", b";"), "separated by ';': it must"),
    "tabs": Wrong("in.csv", lambda: BOOKS.replace(b",", b"\t"), r"separated by '\t': it must"),
    "nothing": Wrong("in.csv", lambda: b"", "the file is empty"),
    "reviews": Wrong(
        "in.csv", lambda: REVIEWS, "'reviews', not of 'books': give the files in the order books, r"
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_is_no_csv_is_told_as_what_it_is(name: str, desk: Place) -> None:
    wrong = WRONG[name]
    Path(wrong.file).write_bytes(wrong.content())
    ended = refuse(desk, run_with(wrong.file))
    assert ended.code == 3
    assert ended.message.startswith(f"{wrong.file}: ")
    assert wrong.says in ended.message
    assert wrong.advice.format(file=shlex.quote(wrong.file)) in ended.message


@pytest.mark.parametrize("name", [name for name, wrong in WRONG.items() if wrong.makes])
def test_what_the_message_says_makes_a_file_that_is_read(name: str, desk: Place) -> None:
    wrong = WRONG[name]
    if shutil.which(wrong.needs) is None:
        pytest.skip(f"there is no {wrong.needs}")
    Path(wrong.file).write_bytes(wrong.content())
    message = refuse(desk, run_with(wrong.file)).message
    subprocess.run(["bash", "-ec", message.rpartition(": ")[2].partition(" or ")[0]], check=True)
    # Its reviews are wrong as well, so a run is refused for these, and not for the books.
    assert refuse(desk, run_with(wrong.makes, "books.csv")).message.startswith("books.csv: ")


def run_with(books: str, reviews: str = "reviews.csv") -> Words:
    return ["run", "books", books, reviews, "--out", "x"]


PLACES = {
    "-": "standard input could not be read again after a crash; save the data to a file first",
    "https://example.org/b.csv?a=1&b=2": "is a URL, and booksan reads files of this machine: "
    "curl -fLO 'https://example.org/b.csv?a=1&b=2'",
    "s3://bucket/b.csv": "s3://bucket/b.csv is a URL, and booksan reads files of this machine: "
    "aws s3 cp s3://bucket/b.csv .",
    "bokks.csv": "bokks.csv: cannot be read: No such file or directory; did you mean 'books.csv'?",
    "data": "data: is a directory, not a file; give the file in it: data/books_data.csv",
    ".": ".: is a directory, not a file",
}


@pytest.mark.parametrize("name", PLACES)
def test_what_is_no_file_of_this_machine_is_told(name: str, desk: Place) -> None:
    Path("data").mkdir()
    Path("data/books_data.csv").write_bytes(BOOKS)
    ended = refuse(desk, run_with(name))
    assert ended.code == 3
    assert PLACES[name] in ended.message


def test_files_with_odd_names_are_files(desk: Place) -> None:
    for name in ("-", "https:"):
        Path(name).write_bytes(BOOKS)
        assert refuse(desk, run_with(f"./{name}", "books.csv")).message.startswith("books.csv: ")


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    made = generator_named("flights").generate(
        tmp_path_factory.mktemp("flights"), rows=5, seed=1, dirty=False
    )
    return tuple(made.paths)


def test_the_files_of_another_data_set_are_told(flights: tuple[Path, ...], desk: Place) -> None:
    for path, source in zip(flights, ("airports", "flights"), strict=True):
        message = refuse(desk, run_with(str(path))).message
        assert f"{path}: looks like the file of '{source}' of the data set flights" in message
        assert "name flights as the data set" in message
    swapped = refuse(desk, ["run", "flights", *reversed(flights), "--out", "x"]).message
    assert "'flights', not of 'airports': give the files in the order airports, flights" in swapped
