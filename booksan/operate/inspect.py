"""What clients are made of, from the databases of their shards: one by one, or united as one."""

import base64
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from rich.console import Console

from booksan.errors import UsageError
from booksan.operate.letters import DataDirectory, DeadLetter, find_letters
from booksan.state.database import BUSY_SECONDS, open_reader, transaction
from booksan.state.readers import (
    StreamProgress,
    clients,
    failures,
    missing_numbers,
    progress,
    recorded,
    sizes,
)
from booksan_common.names import nearest
from booksan_common.terminal import Column, FittedTable, shown

# All databases of one client as one: tables of the same name united, with host, stage and shard.
#
# What is united are copies, each made in one read transaction, so no worker has to wait.

#: Where a row comes from: the columns that every united table begins with.
PLACE = {"host": "TEXT", "stage": "TEXT", "shard": "INTEGER"}
#: The view of every database that tells its own place.
_TELLS_PLACE = "progress"
_TYPES = {"TEXT": str, "INTEGER": int, "REAL": float}
#: All that a question may do: select, read, call functions, and recurse.
_ALLOWED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}


class Source(NamedTuple):
    host: str
    stage: str
    shard: int
    path: Path


class Answer(NamedTuple):
    columns: list[str]
    rows: list[tuple[Any, ...]]

    def as_dict(self) -> dict[str, Any]:
        """Bytes are written as sqlite-utils and datasette write them."""
        rows = [[_for_json(value) for value in row] for row in self.rows]
        return {"rows": [dict(zip(self.columns, row, strict=True)) for row in rows]}


def _for_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"$base64": True, "encoded": base64.b64encode(value).decode()}
    return value


def sources(directories: Sequence[DataDirectory], client: str | None) -> list[Source]:
    """The databases of a client on all hosts; of the only one there is, if none is named."""
    known = sorted({name for each in directories for name in clients(each.path)})
    if client is None:
        if len(known) != 1:
            raise UsageError(
                f"name one of the unfinished clients: {', '.join(known)}"
                if known
                else "there is no unfinished client on this machine"
            )
        client = known[0]
    found = [
        Source(each.path.name, *_stage_and_shard(path), path)
        for each in directories
        for path in sorted((each.path / "clients" / client).glob("*.db"))
    ]
    if not found:
        raise UsageError(f"there is no database of a client {client!r} on this machine")
    return found


def _stage_and_shard(path: Path) -> tuple[str, int]:
    stage, _, shard = path.stem.rpartition("-")
    return stage, int(shard)


class United:
    """The tables of all databases; rows are copied when they are asked for."""

    def __init__(self, db: sqlite3.Connection, found: Iterable[Source]) -> None:
        self._db = db
        #: Of each table its columns with their types, under the names that they have in it.
        self.tables: dict[str, dict[str, str]] = {}
        self._sources: dict[Source, dict[str, dict[str, str]]] = {}
        #: Databases that cannot be read, and why.
        self.left_out: dict[Path, str] = {}
        for source in found:
            self._learn(source)
        self._make_tables()

    def _learn(self, source: Source) -> None:
        import sqlite_utils

        try:
            with closing(open_reader(source.path)) as db:
                tables = sqlite_utils.Database(db)
                names = [*tables.table_names(), *tables.view_names()]
                known = {name: {c.name: c.type for c in tables[name].columns} for name in names}
        except sqlite3.DatabaseError as error:
            self.left_out[source.path] = str(error)
            return
        self._sources[source] = known
        for name, columns in known.items():
            united = self.tables.setdefault(name, dict(PLACE))
            for column, kind in columns.items():
                united.setdefault(_column(name, column), kind)

    def _make_tables(self) -> None:
        import sqlite_utils

        made = sqlite_utils.Database(self._db)
        for name, columns in self.tables.items():
            # A value without a declared type stays what it is, as it does in a column of bytes.
            made.create_table(name, {key: _TYPES.get(kind, bytes) for key, kind in columns.items()})

    def copy(self, names: Iterable[str]) -> None:
        """Fills these tables from all databases."""
        wanted = set(names)
        for source, known in list(self._sources.items()):
            try:
                self._copy_from(source, {name: known[name] for name in wanted & known.keys()})
            except sqlite3.DatabaseError as error:
                self.left_out[source.path] = str(error)

    def _copy_from(self, source: Source, tables: dict[str, dict[str, str]]) -> None:
        place = f"file:{quote(str(source.path))}?mode=ro"
        self._db.execute("ATTACH ? AS source", (place,))
        try:
            with transaction(self._db, "BEGIN"):
                for name, columns in tables.items():
                    self._db.execute(_copying(name, columns), source[:3])
        finally:
            self._db.execute("DETACH source")

    def ask(self, sql: str) -> Answer:
        """What one SELECT says; only the tables that it reads are copied."""
        read: set[str] = set()

        def may(action: int, table: str | None, *_: str | None) -> int:
            if action == sqlite3.SQLITE_READ and table:
                read.add(table)
            return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY

        try:
            self._db.set_authorizer(may)
            # What is wrong with it, and what it reads, is known before anything is copied.
            self._db.execute(f"EXPLAIN {sql}").fetchall()
            self._db.set_authorizer(None)
            self.copy(read & self.tables.keys())
            self._db.set_authorizer(may)
            cursor = self._db.execute(sql)
            return Answer(_unique(found[0] for found in cursor.description), cursor.fetchall())
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise UsageError(self._explained(str(error))) from None
        finally:
            self._db.set_authorizer(None)

    def told(self) -> list[dict[str, str]]:
        """What was left out, for JSON."""
        return [{"database": str(path), "reason": why} for path, why in self.left_out.items()]

    def _explained(self, error: str) -> str:
        if "not authorized" in error or "one statement" in error:
            return "--sql takes one SELECT: the databases are only read"
        told = (f"{name} ({', '.join(columns)})" for name, columns in sorted(self.tables.items()))
        return f"SQL: {error}; there are {', '.join(told)}"


@contextmanager
def united(found: Iterable[Source], path: Path | None = None) -> Iterator[United]:
    """In a file, or in one that SQLite keeps to itself and removes at the end."""
    db = sqlite3.connect(
        f"file:{quote(str(path))}" if path else "",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
    )
    with closing(db):
        # What goes wrong is begun anew; only a database that cannot be read is rolled back.
        db.execute("PRAGMA journal_mode = MEMORY")
        db.execute("PRAGMA synchronous = OFF")
        yield United(db, found)


def save(found: Iterable[Source], path: Path) -> United:
    """One new database with all tables; there is a whole one or none."""
    if path.exists():
        raise UsageError(f"{path} is there already; name another file")
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    try:
        with united(found, part) as whole:
            whole.copy(whole.tables)
        # Not as other files: SQLite writes it, under its name.
        part.rename(path)
    except sqlite3.Error as error:
        raise UsageError(f"{path} cannot be written: {error}") from None
    finally:
        part.unlink(missing_ok=True)
    return whole


def _column(table: str, name: str) -> str:
    """Its name in the united table: a column of the user's may be named as one of ours is."""
    if name.lower() not in PLACE or table == _TELLS_PLACE:
        return name
    return f"own_{name}"


def _copying(table: str, columns: dict[str, str]) -> str:
    own = [name for name in columns if table != _TELLS_PLACE or name not in PLACE]
    into = ", ".join([*PLACE, *(_quoted(_column(table, name)) for name in own)])
    values = ", ".join(["?, ?, ?", *map(_quoted, own)])
    name = _quoted(table)
    return f"INSERT INTO main.{name} ({into}) SELECT {values} FROM source.{name}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _unique(names: Iterable[str]) -> list[str]:
    """Two columns of one name would be one member of a JSON object."""
    found: list[str] = []
    for name in names:
        again = (f"{name}_{number}" for number in range(2, len(found) + 3))
        found.append(name if name not in found else next(n for n in again if n not in found))
    return found


# What unfinished clients are made of, from the databases of their shards.


def inspect_clients(
    directories: Sequence[DataDirectory], client: str | None
) -> list[dict[str, Any]]:
    """Of every client on every host; short transactions only, so nobody has to wait."""
    found = [
        describe(directory, name)
        for directory in directories
        for name in _clients(directory)
        if client is None or name == client
    ]
    if client is not None and not found:
        known = {name for directory in directories for name in _clients(directory)}
        raise UsageError(
            f"there is no unfinished client {client!r} on this machine; {nearest(client, known)}"
        )
    return found


def describe(directory: DataDirectory, client: str) -> dict[str, Any]:
    root = directory.path
    letters = [letter for letter in find_letters([directory]) if letter.client == client]
    return {
        "data_dir": str(root),
        "client": client,
        "progress": [_stream(root, stream) for stream in progress(root, client)],
        "databases": _sizes(root, client),
        "letters": [letter.as_dict() for letter in letters],
        "failures": failures(root, client),
    }


def _clients(directory: DataDirectory) -> list[str]:
    """Also those of whom there is nothing but letters: their first message was deadly."""
    of_letters = {letter.client for letter in find_letters([directory]) if letter.client}
    return sorted(of_letters | set(clients(directory.path)))


def _stream(root: Path, stream: StreamProgress) -> dict[str, Any]:
    try:
        gaps, dedup = missing_numbers(root, stream), recorded(root, stream)
    except sqlite3.DatabaseError:
        # The client has just left.
        gaps, dedup = [], 0
    return asdict(stream) | {"missing": gaps, "dedup": dedup}


def _sizes(root: Path, client: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    try:
        found.extend(asdict(size) for size in sizes(root, client))
    except sqlite3.DatabaseError:
        # A damaged one; `failures` tells which.
        return found
    return found


# Letters and clients on a terminal.

#: Characters of an id that tell letters apart well enough.
SHORT = 12
#: Cells to which a column of long texts is narrowed before columns are left out.
NARROW = 20


def show_letters(console: Console, letters: Sequence[DeadLetter]) -> None:
    if not letters:
        console.print("no dead letters")
        return
    table = FittedTable(
        Column("id"),
        Column("time", 4),
        Column("shard", 2),
        Column("client", 1),
        Column("from", 3),
        Column("error", wraps=NARROW),
    )
    for one in letters:
        sender = f"{one.sender} {one.kind} {one.seq}" if one.sender else "?"
        cells = (one.id[:SHORT], one.when, one.queue, one.client or "?", sender, one.error)
        table.add_row(*cells)
    console.print(table)


def show_letter(console: Console, letter: DeadLetter, contents: str) -> None:
    known = letter.as_dict()
    trace = known.pop("traceback")
    for name, value in known.items():
        found = letter.when if name == "time" else value
        console.print(shown(f"{name + ':':<10} {found}"), soft_wrap=True)
    for line in (*trace.splitlines(), *contents.splitlines()):
        console.print(shown(line), soft_wrap=True)


def show_clients(console: Console, found: Sequence[dict[str, Any]]) -> None:
    if not found:
        console.print("no unfinished clients")
    for client in found:
        _show_client(console, client)


def _show_client(console: Console, client: dict[str, Any]) -> None:
    console.print(shown(f"{client['client']} in {client['data_dir']}"), soft_wrap=True)
    for reason in client["failures"]:
        console.print(shown(f"failed: {reason}", "red"), soft_wrap=True)
    for letter in client["letters"]:
        line = f"dead letter {letter['id'][:SHORT]} at {letter['stage']}.{letter['shard']}: "
        console.print(shown(line + letter["error"], "red"), soft_wrap=True)
    console.print(_streams(client["progress"]))
    databases = FittedTable(
        Column("database"), Column("kB", 1, right=True), Column("rows", 2, wraps=NARROW)
    )
    for row in client["databases"]:
        counts = ", ".join(f"{name} {count:,}" for name, count in row["rows"].items() if count)
        databases.add_row(row["name"], f"{row['bytes'] / 1e3:,.0f}", counts)
    console.print(databases)


def _streams(rows: Sequence[dict[str, Any]]) -> FittedTable:
    table = FittedTable(
        Column("shard"),
        Column("from"),
        Column("batches", 1, right=True),
        Column("of", 2, right=True),
        Column("missing", 3, wraps=7),
        Column("rows", 5, right=True),
        Column("MB", 6, right=True),
        Column("phase", 4),
        Column("dedup", 7, right=True),
        Column("outbox", 8, right=True),
    )
    for row in rows:
        of = "?" if row["of_batches"] is None else row["of_batches"]
        cells = (
            f"{row['stage']}.{row['shard']}",
            row["sender"],
            row["batches"],
            of,
            " ".join(map(str, row["missing"])),
            f"{row['rows']:,}",
            f"{row['bytes'] / 1e6:,.1f}",
            row["phase"],
            row["dedup"],
            row["outbox"],
        )
        table.add_row(*cells)
    return table


def show_answer(console: Console, answer: Answer) -> None:
    """The columns that come last are left out first."""
    rows = [[_cell(value) for value in row] for row in answer.rows]
    columns = [
        Column(
            name,
            rank=place,
            right=any(isinstance(row[place], int | float) for row in answer.rows),
            wraps=NARROW if any(len(row[place]) > NARROW for row in rows) else 0,
        )
        for place, name in enumerate(answer.columns)
    ]
    table = FittedTable(*columns)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _cell(value: Any) -> str:
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    return "" if value is None else str(value)
