"""`booksan inspect --sql` and `--db`: all databases of a client as one."""

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from booksan.errors import UsageError
from booksan.operate.inspect import Answer, Source, save, sources, united
from booksan.operate.letters import DataDirectory
from booksan.state.client import ClientStore, database_path
from booksan.state.database import transaction
from tests.support.command import Place
from tests.support.hosts import command, place_for_hosts
from tests.support.screen import Screen, check_screen
from tests.unit.test_client_store import batch, take
from tests.unit.test_spec import make_spec

STREAMS = [("gateway/books", "books")]
EVERYTHING = "SELECT host, stage, shard, batches FROM progress ORDER BY host, stage, shard"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_for_hosts(tmp_path) as found:
        yield found


def make_database(root: Path, stage: str, shard: int, batches: int) -> Path:
    path = database_path(root, "c1", stage, shard)
    store = ClientStore.begin(path, make_spec(), synchronous="OFF")
    with transaction(store.db):
        store.create(stage, shard, STREAMS, 1_700_000_000.0)
    take(store, *(batch(number) for number in range(batches)))
    store.close()
    return path


@pytest.fixture
def hosts(place: Place) -> list[Path]:
    """Two hosts, with two databases of one client each."""
    roots = [place.state / "booksan/hosts/two" / name for name in ("alpha", "beta")]
    for number, root in enumerate(roots):
        root.mkdir(parents=True)
        (root / "host.json").write_text("{}")
        make_database(root, "q3-join", number, batches=2 + number)
        make_database(root, "q5-sentiment", number, batches=5)
    return roots


def found_at(hosts: list[Path], client: str | None = "c1") -> list[Source]:
    return sources([DataDirectory(root, None) for root in hosts], client)


def ask(hosts: list[Path], sql: str) -> Answer:
    with united(found_at(hosts)) as whole:
        return whole.ask(sql)


def test_tables_of_one_name_are_one_with_their_place(hosts: list[Path]) -> None:
    assert ask(hosts, EVERYTHING).rows == [
        ("alpha", "q3-join", 0, 2),
        ("alpha", "q5-sentiment", 0, 5),
        ("beta", "q3-join", 1, 3),
        ("beta", "q5-sentiment", 1, 5),
    ]
    counts = ask(hosts, "SELECT stage, count(*) AS n FROM dedup GROUP BY stage ORDER BY stage")
    assert counts == (["stage", "n"], [("q3-join", 5), ("q5-sentiment", 10)])


def test_a_table_that_only_some_databases_have_and_columns_of_our_names(hosts: list[Path]) -> None:
    with closing(sqlite3.connect(database_path(hosts[0], "c1", "q3-join", 0))) as db, db:
        db.execute("CREATE TABLE known (key TEXT, stage REAL)")
        db.execute("INSERT INTO known VALUES ('k', 1.5)")
    with closing(sqlite3.connect(database_path(hosts[1], "c1", "q3-join", 1))) as db, db:
        db.execute("CREATE TABLE known (key TEXT, extra)")
        db.execute("INSERT INTO known VALUES ('m', 7)")
    assert ask(hosts, "SELECT * FROM known ORDER BY key") == (
        ["host", "stage", "shard", "key", "own_stage", "extra"],
        [("alpha", "q3-join", 0, "k", 1.5, None), ("beta", "q3-join", 1, "m", None, 7)],
    )


def test_only_what_is_asked_for_is_copied(hosts: list[Path]) -> None:
    with united(found_at(hosts)) as whole:
        whole.ask("SELECT count(*) FROM streams")
        copied = whole._db.execute("SELECT count(*) FROM dedup").fetchone()[0]
    assert copied == 0


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT * FROM progres", r"no such table: progres; there are dedup \(host, stage, shard,"),
        ("SELECT batch FROM progress", r"no such column: batch; .* progress \(host, .* batches,"),
        ("SELECT FROM", "syntax error; there are"),
        ("DELETE FROM dedup", "only read"),
        ("SELECT 1; DROP TABLE dedup", "one SELECT"),
        ("ATTACH '/tmp/other.db' AS other", "only read"),
        ("PRAGMA user_version = 3", "only read"),
        ("", "there are"),
    ],
)
def test_what_is_wrong_with_the_sql_is_told_with_what_there_is(
    hosts: list[Path], sql: str, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        ask(hosts, sql)


def test_a_damaged_database_is_named_and_left_out(hosts: list[Path]) -> None:
    bad = database_path(hosts[0], "c1", "q3-join", 0)
    bad.write_bytes(b"no database at all, but long enough to be taken for one" * 100)
    with united(found_at(hosts)) as whole:
        rows = whole.ask(EVERYTHING).rows
    assert [row[:2] for row in rows] == [
        ("alpha", "q5-sentiment"),
        ("beta", "q3-join"),
        ("beta", "q5-sentiment"),
    ]
    assert list(whole.left_out) == [bad]
    assert "not a database" in whole.left_out[bad]


def test_damage_in_the_middle_leaves_out_all_of_that_database(hosts: list[Path]) -> None:
    path = database_path(hosts[0], "c1", "q3-join", 0)
    with closing(sqlite3.connect(path)) as db:
        with db:
            db.execute("CREATE TABLE wide (a TEXT)")
            db.executemany("INSERT INTO wide VALUES (?)", [("x" * 500,)] * 400)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = path.read_bytes()
    path.write_bytes(data[: -20 * 4096] + b"\xff" * (20 * 4096))
    with united(found_at(hosts)) as whole:
        assert whole.ask("SELECT count(*) FROM wide").rows == [(0,)]
    assert list(whole.left_out) == [path]


def test_workers_write_while_it_is_asked(hosts: list[Path]) -> None:
    """A question never makes a writer wait, and sees whole transactions only."""
    store = ClientStore.open(database_path(hosts[0], "c1", "q3-join", 0), synchronous="OFF")
    assert store is not None
    store.close()
    done = threading.Event()

    def write() -> None:
        mine = ClientStore.open(database_path(hosts[0], "c1", "q3-join", 0), synchronous="OFF")
        assert mine is not None
        for number in range(2, 400):
            take(mine, batch(number))
        mine.close()
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    looks = 0
    while not done.is_set() or not looks:
        sql = """SELECT received, (SELECT count(*) FROM dedup d WHERE d.stage = s.stage)
                 FROM streams s WHERE stage = 'q3-join' AND host = 'alpha'"""
        with united([each for each in found_at(hosts) if each.host == "alpha"]) as whole:
            ((received, recorded),) = whole.ask(sql).rows
        assert received == recorded
        looks += 1
    writer.join()
    assert not whole.left_out


def test_saved_as_one_database_for_other_tools(hosts: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "all.db"
    save(found_at(hosts), path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute(EVERYTHING).fetchall() == ask(hosts, EVERYTHING).rows
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        types = {row[1]: row[2] for row in db.execute("PRAGMA table_info(dedup)")}
    assert types["shard"] == types["seq"] == "INTEGER"
    before = path.read_bytes()
    with pytest.raises(UsageError, match="is there already"):
        save(found_at(hosts), path)
    assert path.read_bytes() == before
    with pytest.raises(UsageError, match="cannot be written"):
        save(found_at(hosts), tmp_path / "nowhere" / "all.db")


def test_which_client(hosts: list[Path], tmp_path: Path) -> None:
    assert found_at(hosts, None) == found_at(hosts)
    (hosts[0] / "clients" / "c2").mkdir()
    with pytest.raises(UsageError, match="name one of the unfinished clients: c1, c2"):
        found_at(hosts, None)
    with pytest.raises(UsageError, match="no database of a client 'c3'"):
        found_at(hosts, "c3")
    with pytest.raises(UsageError, match="there is no unfinished client"):
        found_at([tmp_path / "empty"], None)


@pytest.mark.usefixtures("hosts")
def test_the_command_as_json_and_its_refusals(place: Place) -> None:
    told = command(place, "inspect", "c1", "--sql", EVERYTHING, "--json").document
    assert told["rows"][0] == {"host": "alpha", "stage": "q3-join", "shard": 0, "batches": 2}
    assert (told["left_out"], told["exit_code"]) == ([], 0)
    blob = "SELECT x'00ff' AS b, 1 AS a, 2 AS a"
    told = command(place, "inspect", "c1", "--sql", blob, "--json").document
    assert told["rows"] == [{"b": {"$base64": True, "encoded": "AP8="}, "a": 1, "a_2": 2}]
    wrong = command(place, "inspect", "c1", "--sql", "SELECT 1", "--db", "x.db")
    assert (wrong.code, "do not go together" in wrong.message) == (2, True)


@pytest.mark.usefixtures("hosts")
@pytest.mark.parametrize("columns", [80, 120])
def test_the_table_fits_the_screen(place: Place, columns: int) -> None:
    words = [sys.executable, "-m", "booksan", "inspect", "c1", "--sql", "select * from progress"]
    with Screen(words, columns=columns, env=place.environment({})) as screen:
        assert screen.end() == 0
    check_screen(screen.transcript)
    assert all(name in screen.transcript for name in ("host", "q5-sentiment")), screen.transcript


@pytest.mark.usefixtures("hosts")
def test_the_sqlite3_shell_reads_what_was_saved(place: Place) -> None:
    done = command(place, "inspect", "c1", "--db", place.root / "all.db")
    assert done.code == 0, done.err
    assert "from 4 databases" in done.out
    shell = (
        "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchall())"
    )
    found = subprocess.run(
        [sys.executable, "-c", shell, place.root / "all.db", "select count(*) from progress"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == "[(4,)]\n"
