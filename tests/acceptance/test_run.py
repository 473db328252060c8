"""The answers, the files and the words of a run in which nothing goes wrong."""

import gzip
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest

from booksan.generate.books import generate_books
from tests.acceptance.files import PARAMS, write_inputs
from tests.oracle.books import answers
from tests.support.command import PATIENCE, QUERIES, Place, Words, run_books, settings
from tests.support.inputs import check_answers
from tests.support.real_rows import NO_REAL_ROWS, REAL_ROWS

REAL = REAL_ROWS / "books"
SMALL = {"q2.decades": 3, "q3.min_reviews": 3, "q5.percentile": 80}


def generated(root: Path, seed: int, dirty: bool) -> tuple[Path, Path]:
    return generate_books(root, books=150, reviews=500, seed=seed, dirty=dirty).paths


def command(
    place: Place, books: Path, reviews: Path, params: Mapping[str, object], *more: str
) -> Words:
    return run_books(books, reviews, place.out, *settings(params), *more)


@pytest.mark.parametrize(("seed", "dirty", "workers"), [(1, False, 1), (2, True, 3), (3, True, 1)])
def test_the_answers_are_those_of_the_oracle(
    seed: int, dirty: bool, workers: int, place: Place
) -> None:
    books, reviews = generated(place.root, seed, dirty)
    ended = place.run(command(place, books, reviews, SMALL, "--workers", str(workers)))
    assert ended.code == 0, ended.err
    expected = check_answers(place.out, books, reviews, SMALL)
    assert all(content.count(b"\n") > 1 for content in expected.values())
    assert (place.out / "rejected.csv").exists() == dirty
    assert not place.leftovers()


def test_the_answers_on_real_rows_are_those_of_the_oracle(place: Place) -> None:
    books, reviews = REAL / "books_data.csv", REAL / "Books_rating.csv"
    if not books.exists():
        pytest.skip(NO_REAL_ROWS)
    params = {"q2.decades": 2, "q3.min_reviews": 1, "q5.percentile": 75}
    assert place.run(command(place, books, reviews, params)).code == 0
    check_answers(place.out, books, reviews, params)


def packed(path: Path) -> Path:
    zipped = path.with_name(f"{path.name}.gz")
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    return zipped


def test_gzip_files_and_other_batches_give_the_same_bytes_again(place: Place) -> None:
    books, reviews = generated(place.root, 4, True)
    assert place.run(command(place, packed(books), packed(reviews), SMALL)).code == 0
    check_answers(place.out, books, reviews, SMALL)
    first = {path.name: path.read_bytes() for path in place.out.glob("[!.]*")}
    assert place.run(command(place, books, reviews, SMALL, "--batch-bytes", "9000")).code == 0
    assert {path.name: path.read_bytes() for path in place.out.glob("[!.]*")} == first


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_other_formats_hold_the_same_values_natively(form: str, place: Place) -> None:
    books, reviews = write_inputs(place.root)
    assert place.run(command(place, books, reviews, PARAMS, "--format", form)).code == 0
    for name, content in answers(books, reviews, PARAMS).items():
        path = place.out / f"{name}.{form}"
        found = json.loads(path.read_text("utf-8")) if form == "json" else read_parquet(path)
        frame = pl.read_csv(content, infer_schema_length=None)
        if "authors" in frame.columns:
            lists = pl.col("authors").str.json_decode(pl.List(pl.String))
            frame = frame.with_columns(lists)
        assert found == frame.fill_null("").to_dicts()
        assert not (place.out / f"{name}.csv").exists()


def read_parquet(path: Path) -> list[dict[str, object]]:
    return pl.read_parquet(path).to_dicts()


def test_json_tells_everything_about_the_run(place: Place) -> None:
    books, reviews = write_inputs(place.root)
    with reviews.open("ab") as file:
        file.write(b"too few fields\n")
    ended = place.run(command(place, books, reviews, PARAMS, "--json"))
    found = ended.document
    assert found["exit_code"] == ended.code == 0
    assert found["dataset"] == "books"
    assert found["params"].items() >= PARAMS.items()
    assert found["rows"] == {"books": 4, "reviews": 7}
    assert found["rejected"] == {"books": 0, "reviews": 1}
    assert found["answers"] == {"q1": 1, "q2": 4, "q3": 2, "q4": 2, "q5": 2}
    names = {name: str(place.out / f"{name}.csv") for name in (*QUERIES, "rejected")}
    assert found["files"] == names
    assert found["seconds"] > 0
    assert found["megabytes"] == pytest.approx(
        (books.stat().st_size + reviews.stat().st_size) / 1e6, abs=0.001
    )
    assert found["restarts"] == 0
    assert found["resumed"] is False


def test_without_a_terminal_there_are_answers_on_stdout_and_two_lines_on_stderr(
    place: Place,
) -> None:
    books, reviews = write_inputs(place.root)
    with books.open("ab") as file:
        file.write(b"too few fields\n")
    ended = place.run(command(place, books, reviews, PARAMS))
    # On a busy machine it also tells now and then how far it is.
    *waiting, rejected, summary = ended.err.splitlines()
    assert all(re.fullmatch(r"booksan: .*, after \d+ s", line) for line in waiting)
    assert rejected == (f"booksan: 1 row was rejected; {place.out}/rejected.csv says which and why")
    assert summary.startswith("booksan: 5 books, 6 reviews in ")
    assert summary.endswith(f" MB/s), 1 rejected; the answers are in {place.out}")
    assert "\x1b" not in ended.out + ended.err
    assert all(f"{name}: " in ended.out for name in QUERIES)
    assert "The Old Mill" in ended.out
    assert f"{place.out}/q3.csv" in ended.out.splitlines()
    assert f"with all digits in {place.out}/q5.csv" in ended.out.splitlines()


def on_a_terminal(place: Place, words: Words, **env: str) -> str:
    """What a terminal receives on stderr."""
    ours, theirs = pty.openpty()
    environment = place.environment({"TERM": "xterm-256color", "COLUMNS": "120"} | env)
    with subprocess.Popen(
        [sys.executable, "-m", "booksan", *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=environment,
    ) as process:
        os.close(theirs)
        seen = b"".join(iter(lambda: _read(ours), b""))
        os.close(ours)
        assert process.wait(PATIENCE) == 0, seen
    return seen.decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""


def test_a_terminal_shows_a_bar_for_every_upload_and_stage(place: Place) -> None:
    books, reviews = generated(place.root, 5, False)
    seen = on_a_terminal(place, command(place, books, reviews, SMALL, "--batch-bytes", "20000"))
    shown = ("upload books", "upload reviews", "q1-filter", "q5-sentiment", "rows", "MB/s", "━")
    assert [word for word in shown if word not in seen] == []
    assert "the answers are in" in seen


def test_no_color_is_respected(place: Place) -> None:
    books, reviews = write_inputs(place.root)
    seen = on_a_terminal(place, command(place, books, reviews, PARAMS), NO_COLOR="1")
    assert "upload books" in seen
    assert "\x1b[3" not in seen


def test_a_list_of_rejected_rows_of_an_earlier_run_goes(place: Place) -> None:
    assert place.run(command(place, *generated(place.root, 4, True), SMALL)).code == 0
    assert (place.out / "rejected.csv").exists()
    (place.out / "notes.txt").write_text("mine")
    books, reviews = write_inputs(place.root)
    assert place.run(command(place, books, reviews, PARAMS)).code == 0
    found = sorted(path.name for path in place.out.glob("[!.]*"))
    assert found == ["notes.txt", *(f"{name}.csv" for name in QUERIES)]


def test_a_given_data_directory_is_empty_but_there_after_success(place: Place) -> None:
    books, reviews = write_inputs(place.root)
    words = command(place, books, reviews, PARAMS, "--data-dir", str(place.data))
    assert place.run(words).code == 0
    assert [path.name for path in place.data.iterdir()] in ([], ["run.lock"])
    assert place.run([*words, "--set", "q2.decades=2"]).code == 0


def test_nobody_reading_the_output_does_not_end_the_run(place: Place) -> None:
    books, reviews = write_inputs(place.root)
    with place.started(command(place, books, reviews, PARAMS)) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        ended = place.ended(process)
    assert ended.code == 0, ended.err
    assert "the answers are in" in ended.err
    check_answers(place.out, books, reviews, PARAMS)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_to_a_full_disk_does_not_end_the_run(stream: str, place: Place) -> None:
    books, reviews = write_inputs(place.root)
    words = [sys.executable, "-m", "booksan", *command(place, books, reviews, PARAMS)]
    null = subprocess.DEVNULL
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            words,
            stdout=full if stream == "stdout" else null,
            stderr=full if stream == "stderr" else null,
            env=place.environment(),
            timeout=PATIENCE,
        )
    assert ended.returncode == 0
    check_answers(place.out, books, reviews, PARAMS)


def test_odd_words_in_data_parameters_and_paths_are_shown_as_they_are(place: Place) -> None:
    row = "Distributed \x1b[31m[/b] Żółw,,['[bold]X'],,2004,['Computers']\n"
    books, reviews = write_inputs(place.root)
    books.write_bytes(books.read_bytes() + row.encode())
    params = {**PARAMS, "q5.category": "[/i]Fiction"}
    odd = place.root / "[out] é"
    words = run_books(books, reviews, odd, *settings(params))
    ended = place.run(words, env={"PYTHONIOENCODING": "ascii"})
    assert ended.code == 0, ended.err
    assert "[/b]" in ended.out
    assert "[/i]Fiction" in ended.out
    assert "\x1b" not in ended.out
    check_answers(odd, books, reviews, params)
