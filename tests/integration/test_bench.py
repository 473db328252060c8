"""The benchmark: fair baselines, the same answers, honest figures."""

import csv
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from booksan.bench import cli, runner, sentiment
from booksan.bench.baseline import parse_parameters
from booksan.bench.books import Parameters, best_polarities, best_scores, python_list, start_pool
from booksan.bench.measure import MemorySampler, measure, memory_kind
from booksan.bench.report import Report
from booksan.bench.runner import BenchOptions, Contestant, bench
from booksan.errors import InputError, RunFailed, UsageError
from booksan.generate.books import generate_books
from tests.oracle import books as oracle
from tests.support.real_rows import NO_REAL_ROWS, REAL_ROWS

BOOKSAN, CLUSTER, DUCKDB, POLARS = runner.contestants_of("books")
QUERIES = ("q1", "q2", "q3", "q4", "q5")
REAL = REAL_ROWS / "books"
MEGABYTE = 1 << 20

BOOK_COLUMNS = ("Title", "authors", "publisher", "publishedDate", "categories", "ratingsCount")
BOOKS = [
    ("Distributed Things", "['Ann Öst', 'King, Jr.']", "Acme", "2001-05-01", "['Computers']", ""),
    ("DISTRIBUTED again", "['Bo']", "", "2023", "['Computers']", "3.0"),
    ("Distributed too late", "['Bo']", "Acme", "2024", "['Computers']", ""),
    ("Distributed cooking", "['Bo']", "Acme", "2010", "['Cooking']", ""),
    ("Distributed Things", '["Zoe O\'Hara"]', "Acme", "1999", "['Computers', 'Fiction']", ""),
    ("Distributed B", "['Bo B']", "Acme", "2005", "['Computers']", ""),
    ("Distributed B", "['Bo']", "Acme", "2005", "['Computers']", ""),
    ("Twice", "['First']", "Acme", "1991", "['Fiction']", ""),
    ("Twice", "['Second']", "Acme", "2015", "['Cooking']", ""),
    ("Edge, 1990", "['Bo', '']", "Acme", "c1990*", "['Fiction']", ""),
    ("Edge 1999", "Bo", "Acme", "1999-12-31", "['Juvenile Fiction']", ""),
    ("Quiet", "['Nobody']", "Acme", "1995", "['Fiction']", ""),
    ("No authors", "[]", "Acme", "1995", "['Fiction']", ""),
    ("No year", "['Bo']", "Acme", "once", "['Fiction']", ""),
    ("", "['Bo']", "Acme", "1981", "['Fiction']", ""),
    ("Old", "['Bo']", "Acme", "1985", "['Fiction']", ""),
]
REVIEW_COLUMNS = ("Id", "Title", "Price", "review/score", "review/summary", "review/text")
REVIEWS = [
    ("1", "Twice", "", "0.1", "fine", 'A "good" book,\nreally good.'),
    ("2", "Twice", "", "0.2", "fine", "Terrible. Not good at all!"),
    ("3", "Twice", "", "", "no score", ""),
    ("4", "Edge, 1990", "", "5.0", "", "An excellent, wonderful story."),
    ("5", "Edge, 1990", "", "4.0", "", "Über-boring; the worst."),
    ("6", "Edge 1999", "", "4.5", "", "not asked for"),
    ("7", "Edge 1999", "", "4.5", "", "not asked for"),
    ("8", "Old", "", "1.0", "", "A very happy and delightful read"),
    ("9", "Quiet", "", "5.0", "", "Only one review, and it is bad."),
    ("10", "", "", "5.0", "", "great"),
    ("11", "Unknown", "", "5.0", "", "great"),
    ("12", "No authors", "", "5.0", "", "perfect perfect"),
    ("13", "No authors", "", "5.0", "", "perfect perfect"),
]
SETTINGS = ("q2.decades=2", "q3.min_reviews=2", "q5.percentile=50")

Data = tuple[Path, Path]


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([columns, *rows])
    return path


def write_data(directory: Path) -> Data:
    books = write_csv(directory / "books_data.csv", BOOK_COLUMNS, BOOKS)
    return books, write_csv(directory / "Books_rating.csv", REVIEW_COLUMNS, REVIEWS)


def answers(contestant: Contestant, data: Data, out: Path, *settings: str) -> dict[str, str]:
    command = contestant.command(data, out, settings)
    subprocess.run(command, check=True, timeout=120)
    return {query: (out / f"{query}.csv").read_text(encoding="utf-8") for query in QUERIES}


@pytest.fixture
def kept(tmp_path: Path) -> BenchOptions:
    """Options whose data directory already holds files, so nothing needs to be generated."""
    write_data(tmp_path / f"books-{len(BOOKS)}-reviews-{len(REVIEWS)}-seed-7")
    return BenchOptions("books", len(REVIEWS), len(BOOKS), seed=7, data=tmp_path, settings=SETTINGS)


def scripted(name: str, body: str) -> Contestant:
    """A contestant that runs a few lines of Python with `out` and `number` at hand."""

    def command(files: Sequence[Path], out: Path, settings: Sequence[str]) -> list[str]:
        del files, settings
        lines = f"import pathlib, sys\nout = pathlib.Path({str(out)!r})\nout.mkdir()\n{body}"
        return [sys.executable, "-c", lines]

    return Contestant(name, name, command)


FIXED = "for q in range(1, 6): (out / f'q{q}.csv').write_text(f'title\\nrow of q{q}\\n')\n"
HONEST = scripted("duckdb", FIXED)


@pytest.mark.parametrize("baseline", [DUCKDB, POLARS], ids=lambda each: each.name)
def test_a_baseline_answers_as_the_queries_are_defined(
    baseline: Contestant, tmp_path: Path
) -> None:
    found = answers(baseline, write_data(tmp_path), tmp_path / "out", *SETTINGS)

    assert found["q1"] == (
        "title,authors,publisher\n"
        'DISTRIBUTED again,"[""Bo""]",\n'
        'Distributed B,"[""Bo B""]",Acme\n'
        'Distributed B,"[""Bo""]",Acme\n'
        'Distributed Things,"[""Ann Öst"", ""King, Jr.""]",Acme\n'
    )
    assert found["q2"] == "author,decades\nBo,5\n"
    assert found["q3"] == (
        'title,authors,reviews\nEdge 1999,"[""Bo""]",2\n'
        '"Edge, 1990","[""Bo""]",2\nTwice,"[""First""]",3\n'
    )
    assert found["q4"] == (
        'rank,title,mean_score\n1,Edge 1999,4.5\n2,"Edge, 1990",4.5\n3,Twice,0.15\n'
    )
    assert found["q5"].splitlines()[0] == "title,mean_polarity"
    assert [line.rpartition(",")[0] for line in found["q5"].splitlines()[1:]] == [
        '"Edge, 1990"',
        "Old",
    ]


def test_the_means_of_q5_are_those_of_textblob(tmp_path: Path) -> None:
    found = answers(DUCKDB, write_data(tmp_path), tmp_path / "out", "q5.percentile=0")
    rows = dict(csv.reader(found["q5"].splitlines()[1:]))
    texts = {"Old": [REVIEWS[7][5]], "Twice": [REVIEWS[0][5], REVIEWS[1][5]]}
    for title, reviews in texts.items():
        values = sentiment.textblob_polarities(reviews)
        assert rows[title] == repr(sum(values) / len(values))
    assert set(rows) == {"Old", "Twice", "Edge, 1990", "Quiet"}


def check_all_agree(data: Data, out: Path) -> None:
    settings = {"q1.word": "a", "q2.decades": 2, "q3.min_reviews": 2, "q3.from_year": 1900}
    words = [f"{name}={value}" for name, value in settings.items()]
    first = answers(DUCKDB, data, out / "duckdb", *words)
    assert first == answers(POLARS, data, out / "polars", *words)
    truth = oracle.answers(*data, settings)
    assert first == {query: answer.decode() for query, answer in truth.items()}
    assert all(len(answer.splitlines()) > 2 for answer in first.values())


def test_the_baselines_agree_byte_for_byte_on_generated_rows(tmp_path: Path) -> None:
    generate_books(tmp_path, books=400, reviews=1_500, seed=5)
    check_all_agree((tmp_path / "books_data.csv", tmp_path / "Books_rating.csv"), tmp_path)


def test_the_baselines_agree_byte_for_byte_on_real_rows(tmp_path: Path) -> None:
    data = REAL / "books_data.csv", REAL / "Books_rating.csv"
    if not data[0].exists():
        pytest.skip(NO_REAL_ROWS)
    check_all_agree(data, tmp_path)


def test_a_baseline_refuses_an_unknown_parameter(tmp_path: Path) -> None:
    command = DUCKDB.command(write_data(tmp_path), tmp_path / "out", ("q3.minimum=1",))
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "q3.min_reviews" in done.stderr


def test_parameters_have_the_defaults_of_the_queries() -> None:
    wanted = parse_parameters(Parameters, ["q4.top=3", "q5.percentile=99.5", "q1.word=a=b"])
    assert (wanted.q4_top, wanted.q5_percentile, wanted.q1_word) == (3, 99.5, "a=b")
    assert (wanted.q3_from_year, wanted.q3_to_year, wanted.q3_min_reviews) == (1990, 1999, 500)


def test_a_value_that_is_no_list_literal_is_one_element() -> None:
    assert python_list("['a, b', '', \"c'd\"]") == ["a, b", "c'd"]
    assert python_list("Plain, Name") == ["Plain, Name"]
    assert python_list("[broken") == ["[broken"]
    assert python_list("(1, 2)") == ["(1, 2)"]
    assert python_list("[]") == []


def test_means_are_exact_and_ties_go_by_title() -> None:
    counts = [("b", "0.1", 3), ("a", "0.1", 1), ("c", "0.3", 1), ("c", "0.1", 2)]
    assert list(best_scores(counts, 2)) == [(1, "c", 0.5 / 3), (2, "a", 0.1)]


def test_no_texts_give_no_polarities() -> None:
    with start_pool() as pool:
        assert list(best_polarities(pool, [], 90)) == []


def test_the_report_has_the_promised_fields(kept: BenchOptions) -> None:
    report = bench(replace(kept, only=("duckdb", "polars"), repeat=2))
    found = json.loads(json.dumps(report.to_json()))

    assert found["agrees"] is True
    assert found["differences"] == []
    assert found["twice"] is None
    assert found["memory"] == memory_kind()
    assert {"system", "cores", "python", "duckdb", "polars", "textblob"} <= set(found["machine"])
    assert found["data"]["rows"] == {"books": len(BOOKS), "reviews": len(REVIEWS)}
    assert found["data"]["bytes"] > 1000
    assert [result["name"] for result in found["results"]] == ["duckdb", "polars"]
    duckdb, polars = found["results"]
    assert duckdb["speed_ratio"] == duckdb["memory_ratio"] == 1.0
    assert polars["speed_ratio"] == pytest.approx(duckdb["seconds"] / polars["seconds"])
    assert polars["memory_ratio"] == pytest.approx(polars["peak_bytes"] / duckdb["peak_bytes"])
    for result in found["results"]:
        assert len(result["runs"]) == 2
        assert result["peak_bytes"] == max(run["peak_bytes"] for run in result["runs"])
        assert result["peak_bytes"] > 10 * MEGABYTE
        assert result["cpu_seconds"] > 0
        assert result["rows_per_second"] == pytest.approx(len(REVIEWS) / result["seconds"])
        rate = found["data"]["bytes"] / 1e6 / result["seconds"]
        assert result["megabytes_per_second"] == pytest.approx(rate)


def test_contestants_take_turns_in_going_first(kept: BenchOptions) -> None:
    seen: list[str] = []
    rivals = [HONEST, scripted("polars", FIXED)]
    bench(replace(kept, repeat=2), contestants=rivals, progress=seen.append)
    assert seen[1:] == ["duckdb, run 1", "polars, run 1", "polars, run 2", "duckdb, run 2"]


@pytest.mark.parametrize(
    ("crime", "query", "line", "found"),
    [
        ("(out / 'q4.csv').write_text('title\\nanother\\n')", "q4", 2, "another"),
        ("(out / 'q2.csv').write_text('title\\n')", "q2", 2, ""),
        ("(out / 'q5.csv').write_text('title\\nrow of q5')", "q5", 3, None),
        ("(out / 'q1.csv').unlink()", "q1", 1, None),
    ],
)
def test_a_wrong_answer_is_noticed_and_shown(
    kept: BenchOptions, crime: str, query: str, line: int, found: str | None
) -> None:
    report = bench(kept, contestants=[HONEST, scripted("liar", FIXED + crime)])
    assert not report.agrees
    (difference,) = report.differences
    assert (difference.contestant, difference.reference) == ("liar", "duckdb")
    assert (difference.query, difference.line, difference.found) == (query, line, found)
    assert f"{query} of liar differs from duckdb in line {line}" in str(difference)
    assert [result.agrees for result in report.results] == [True, False]


def test_a_contestant_that_contradicts_itself_is_noticed(kept: BenchOptions) -> None:
    moody = scripted("duckdb", FIXED + "if out.name.endswith('2'): (out / 'q3.csv').write_text('')")
    report = bench(replace(kept, repeat=2), contestants=[moody])
    assert [difference.query for difference in report.differences] == ["q3"]


def test_answers_that_nobody_gives_are_noticed(kept: BenchOptions) -> None:
    report = bench(kept, contestants=[scripted("duckdb", "")])
    assert [difference.query for difference in report.differences] == list(QUERIES)


def test_a_contestant_that_fails_is_named_with_its_last_words(kept: BenchOptions) -> None:
    broken = scripted("duckdb", "sys.exit('out of ideas')")
    with pytest.raises(RunFailed, match="out of ideas"):
        bench(kept, contestants=[broken])


def test_only_picks_contestants_and_refuses_strangers() -> None:
    everybody = runner.contestants_of("books")
    assert runner.choose(everybody, ["polars"]) == [everybody[-1]]
    with pytest.raises(UsageError, match="booksan, cluster, duckdb, polars"):
        runner.choose(everybody, ["spark"])


def test_a_missing_extra_names_the_command_that_installs_it() -> None:
    lacking = replace(DUCKDB, needs=("no_such_module",))
    with pytest.raises(UsageError, match=r"pip install 'booksan\[bench\]'"):
        runner.choose([lacking], [])


def test_twice_compares_the_memory_for_twice_the_reviews(kept: BenchOptions) -> None:
    assert kept.data is not None
    write_data(kept.data / f"books-{len(BOOKS)}-reviews-{2 * len(REVIEWS)}-seed-7")
    us = scripted("booksan", FIXED)
    report = bench(replace(kept, twice=True), contestants=[us])
    assert report.twice is not None
    assert report.twice.rows == 2 * len(REVIEWS)
    assert report.twice.under_limit
    once = report.results[0].peak_bytes
    assert report.twice.memory_ratio == pytest.approx(report.twice.peak_bytes / once)
    with pytest.raises(UsageError, match="booksan"):
        bench(replace(kept, twice=True, only=("duckdb",)))


def test_booksan_takes_part_and_gives_the_same_answers(kept: BenchOptions) -> None:
    assert kept.data is not None
    report = bench(replace(kept, only=("booksan", "duckdb")))
    assert report.differences == ()
    assert report.results[0].speed_ratio == pytest.approx(
        report.results[1].seconds / report.results[0].seconds
    )
    assert not list((kept.data / "answers").glob("*-work"))


def test_all_contestants_get_two_cores_and_no_earlier_work() -> None:
    command = BOOKSAN.command([Path("b"), Path("r")], Path("out", "booksan-1"), ["q4.top=3"])
    assert command[1:6] == ["-m", "booksan", "run", "books", "b"]
    options = dict(itertools.pairwise(command))
    assert options["--workers"] == "2"
    assert options["--data-dir"] == str(Path("out", "booksan-1-work"))
    assert options["--set"] == "q4.top=3"


def holding(body: str) -> "subprocess.Popen[bytes]":
    """A process that does something, says so, and stays until its input is closed."""
    program = f"import os, subprocess, sys\n{body}\nsys.stdin.read()"
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def peak_of(process: "subprocess.Popen[bytes]", enough: Callable[[int], bool]) -> int:
    deadline = time.monotonic() + 20
    with process, MemorySampler(process.pid, interval=0.01) as sampler:
        while not enough(sampler.peak_bytes) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert process.stdin is not None
        process.stdin.close()
    return sampler.peak_bytes


def started(body: str) -> str:
    """Lines that run the body in a child and leave their input and output to it."""
    program = f"import subprocess, sys\n{body}"
    return f"subprocess.run([sys.executable, '-c', {program!r}])"


@pytest.mark.parametrize("generations", [1, 2])
def test_the_sampler_sees_what_a_descendant_allocates(generations: int) -> None:
    body = "block = b'x' * (80 << 20)\nprint('ready', flush=True)\nsys.stdin.read()"
    for _ in range(generations):
        body = started(body)
    peak = peak_of(holding(body), lambda seen: seen > 80 * MEGABYTE)
    assert 80 * MEGABYTE < peak < 160 * MEGABYTE


@pytest.mark.skipif(memory_kind() != "PSS", reason="only PSS knows what is shared")
def test_memory_shared_by_forked_processes_counts_once() -> None:
    forks = "block = b'x' * (80 << 20)\nos.fork() and os.fork() and print('ready', flush=True)"
    peak = peak_of(holding(forks), lambda seen: seen > 80 * MEGABYTE)
    assert 80 * MEGABYTE < peak < 160 * MEGABYTE


def test_measuring_counts_the_cpu_time_of_the_command(tmp_path: Path) -> None:
    busy = "import time\nwhile time.process_time() < 0.5: pass"
    found = measure([sys.executable, "-c", busy], tmp_path / "log")
    assert found.seconds >= 0.5
    assert 0.4 < found.cpu_seconds < 5
    assert found.sampling_seconds < found.seconds


def invoke(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli.app, list(words))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout


def small(kept: BenchOptions, *words: str) -> tuple[int, str]:
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    size = ("--reviews", str(len(REVIEWS)), "--books", str(len(BOOKS)), "--seed", "7")
    return invoke("books", *size, "--data", str(kept.data), *settings, *words)


def test_the_command_prints_one_json_document(kept: BenchOptions) -> None:
    code, output = small(kept, "--only", "duckdb,polars", "--json")
    assert code == 0
    assert json.loads(output)["agrees"] is True


def test_the_command_fails_when_answers_differ(
    kept: BenchOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    liar = scripted("polars", FIXED + "(out / 'q4.csv').write_text('title\\nanother\\n')")

    def rigged(options: BenchOptions, progress: Callable[[str], None]) -> Report:
        return bench(options, contestants=[HONEST, liar], progress=progress)

    monkeypatch.setattr("booksan.bench.command.bench", rigged)
    code, output = small(kept)
    assert code == 9
    assert "DIFFER" in output
    assert "q4 of polars differs from duckdb in line 2" in " ".join(output.split())


def test_the_table_names_contestants_and_ratios(kept: BenchOptions) -> None:
    code, output = small(kept, "--only", "duckdb")
    assert code == 0
    assert "DuckDB" in output
    assert "1.00x" in output


def test_generated_files_are_reused_and_agree(tmp_path: Path) -> None:
    options = BenchOptions(
        "books", 240, 20, data=tmp_path, only=("duckdb", "polars"), settings=SETTINGS
    )
    assert bench(options).agrees
    (files,) = tmp_path.glob("books-20-reviews-240-*")
    before = [path.stat().st_mtime_ns for path in sorted(files.iterdir())]
    assert bench(options).agrees
    assert before == [path.stat().st_mtime_ns for path in sorted(files.iterdir())]


def test_sentiment_is_compared_to_the_last_bit() -> None:
    texts = ["A good book.", "A bad book.", "A book."]
    report = sentiment.bench_sentiment("three", texts)
    assert (report.reviews, report.differences, report.examples) == (3, 0, ())
    assert min(report.textblob_us, report.cold_us, report.warm_us) > 0
    assert report.warm_ratio == pytest.approx(report.textblob_us / report.warm_us)

    def nearly(given: list[str]) -> list[float]:
        return [-0.0 if value == 0 else value for value in sentiment.textblob_polarities(given)]

    wrong = sentiment.bench_sentiment("three", texts, fast=nearly)
    assert wrong.differences == 1
    assert "A book." in wrong.examples[0]


def test_the_sentiment_command_reads_generated_and_given_texts(tmp_path: Path) -> None:
    _, reviews = write_data(tmp_path)
    code, output = invoke("sentiment", "--reviews", "60", "--file", str(reviews), "--json")
    assert code == 0
    found = json.loads(output)
    assert found["agrees"] is True
    assert [each["texts"] for each in found["texts"]] == ["generated", "Books_rating.csv"]
    assert [each["reviews"] for each in found["texts"]][1] == len(REVIEWS) - 1


def test_a_file_without_texts_is_refused(tmp_path: Path) -> None:
    books, _ = write_data(tmp_path)
    with pytest.raises(InputError, match="review/text"):
        sentiment.file_texts(books, 10)
