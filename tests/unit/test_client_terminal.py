"""Nothing that a server or a file says can steer the terminal; files have it byte for byte."""

import copy
import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from booksan.cluster.status import show_cluster
from booksan.operate.inspect import show_clients, show_letter, show_letters
from booksan.operate.letters import DataDirectory, DeadLetter
from booksan_common.terminal import PatientConsole, plain, say, shown
from tests.unit.client_user import User
from tests.unit.fake_gateway import DATASET, Answer, FakeGateway, Seen

pytestmark = pytest.mark.timeout(120)

#: A title of the window, a colour, C1 codes, markup with a link, another direction, a new line.
EVIL = (
    "\x1b]0;owned\x07 \x1b[31mEVIL\x9b2J\x7f\r\b [link=http://e]x[/link] \u202e\u2066 \nbooksan: ok"
)
#: What rich itself writes: colours, lines erased, the cursor moved, hidden and shown.
OWN = re.compile(rb"\x1b\[(\?25[lh]|[0-9;]*m|[12]?K|[0-9]*A)")
BIDI = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
ROWS = [{"name": EVIL, "n": 2}]
RAW = f'name,n\n"{EVIL}",2\n'.encode()


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    with FakeGateway() as gateway:
        yield User(tmp_path, gateway)


def on_a_terminal(user: User, *words: str) -> tuple[int, bytes]:
    """The exit code of the command, and all that reached its terminal."""
    ours, theirs = pty.openpty()
    env = os.environ | user.env | {"TERM": "xterm-256color", "COLUMNS": "200"}
    command = [sys.executable, "-m", "booksan_client", *words]
    process = subprocess.Popen(command, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = bytearray()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        while True:
            try:
                piece = terminal.read(65536)
            except OSError:
                # All that had the other side open are gone.
                break
            if not piece:
                break
            seen += piece
    return process.wait(60), bytes(seen)


def check(seen: bytes) -> None:
    assert b"EVIL" in seen or b"owned" in seen
    rest = OWN.sub(b"", seen)
    assert b"\x1b" not in rest, rest
    assert b"\x07" not in seen
    assert b"\x08" not in seen
    assert b"\x1b[31mEVIL" not in seen
    assert b"\x1b]8" not in seen
    text = seen.decode()
    assert not BIDI.search(text)
    assert "\x9b" not in text
    assert "\nbooksan: ok" not in text


def evil_status(user: User) -> dict[str, Any]:
    found = user.run.status(user.id) | {"dataset": EVIL, "params": {EVIL: EVIL}}
    stage = dict.fromkeys(("shards", "batches", "rows", "bytes"), 1)
    place = {"stage": EVIL, "shard": 0, "sender": EVIL, "batches": 1}
    return found | {
        "stages": {EVIL: stage | {"of_batches": 2, "done": False}},
        "stalled": {"seconds": 130, "where": [place | {"of_batches": 9, "missing": [3]}]},
    }


def evil_server(user: User) -> None:
    dataset: dict[str, Any] = copy.deepcopy(DATASET)
    dataset["about"] = dataset["queries"][0]["about"] = dataset["params"][0]["help"] = EVIL
    user.gateway.dataset = dataset
    page = {"query": EVIL, "about": EVIL, "complete": True, "total": 20, "offset": 0}
    page |= {"columns": {"name": "TEXT", EVIL: EVIL, "n": "INTEGER"}, "rows": ROWS}

    def speak(seen: Seen) -> Answer | None:
        if "/results/q1" in seen.path:
            return Answer(200, page) if "format=page" in seen.path else Answer(200, raw=RAW)
        if seen.method == "GET" and user.gateway.runs and f"/{user.id}" in seen.path:
            return Answer(200, evil_status(user)) if "/rejected" not in seen.path else None
        return None

    user.gateway.fault = speak


def test_a_whole_run_with_an_evil_server(user: User) -> None:
    evil_server(user)
    code, seen = on_a_terminal(user, *user.submission)
    assert code == 0, seen
    check(seen)
    assert (user.out / "q1.csv").read_bytes() == RAW


def test_a_status_and_its_watching(user: User) -> None:
    evil_server(user)
    assert user.submit("--detach").code == 0
    for words in (["status", user.id], ["status"], ["status", user.id, "--watch"]):
        code, seen = on_a_terminal(user, *words)
        assert code == 0, seen
        check(seen)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422])
def test_an_error(user: User, status: int) -> None:
    found = {"error": {"code": EVIL, "message": EVIL, "how": EVIL}}
    user.gateway.fault = lambda seen: Answer(status, found)
    code, seen = on_a_terminal(user, *user.submission)
    assert code in (2, 7)
    check(seen)


def test_a_failure_and_a_run_that_is_gone(user: User) -> None:
    assert user.submit("--detach").code == 0
    user.run.failed = EVIL
    code, seen = on_a_terminal(user, *user.submission)
    assert code == 5
    check(seen)
    user.run.gone = EVIL
    code, seen = on_a_terminal(user, *user.submission)
    assert code == 8
    check(seen)


def test_the_list_of_the_operator(user: User) -> None:
    user.env["BOOKSAN_OPERATOR_TOKEN"] = "op"
    client = {"id": EVIL, "dataset": EVIL, "state": EVIL, "expires": 0, "host": EVIL}
    found = {"clients": [client], "missing": [EVIL]}
    user.gateway.fault = lambda seen: Answer(200, found)
    code, seen = on_a_terminal(user, "list")
    assert code == 0
    check(seen)


def test_names_and_headers_of_files(user: User) -> None:
    evil = user.root / f"{EVIL.replace('/', '')}.csv"
    evil.write_text(f'"{EVIL}",b\n1,2\n')
    words = ["submit", "birds", str(evil), str(user.eggs), "--out", str(user.out)]
    code, seen = on_a_terminal(user, *words)
    assert code == 3
    check(seen)


def test_what_goes_to_programs_is_what_the_server_said(user: User) -> None:
    evil_server(user)
    assert user.submit("--detach").code == 0
    ended = user.call("status", user.id, "--json")
    assert ended.document["dataset"] == EVIL
    assert "\x1b" not in ended.out


def test_the_tables_of_the_operator() -> None:
    console = PatientConsole(file=io.StringIO(), force_terminal=True, width=300)
    letter = DeadLetter(
        EVIL, EVIL, 0, EVIL, 0, EVIL, EVIL, EVIL, 1, 5, DataDirectory(Path(EVIL), None)
    )
    show_letters(console, [letter])
    # Of what is in a letter, its lines stay lines.
    show_letter(console, letter, EVIL.replace("\n", " "))
    stream = {"stage": EVIL, "shard": 0, "sender": EVIL, "batches": 1, "of_batches": None}
    stream |= {"missing": [EVIL], "rows": 1, "bytes": 1, "phase": EVIL, "dedup": 1, "outbox": 0}
    client: dict[str, Any] = {"client": EVIL, "data_dir": EVIL, "failures": [EVIL]}
    client |= {"progress": [stream], "letters": [letter.as_dict()]}
    client["databases"] = [{"name": EVIL, "bytes": 1, "rows": {EVIL: 1}}]
    show_clients(console, [client])
    worker: dict[str, Any] = dict.fromkeys(("name", "pid", "state", "restarts", "queue"), EVIL)
    worker |= {"since": 0, "memory": None, "cpu": None}
    host = dict.fromkeys(("name", "id", "state", "pid", "gateway", "error"), EVIL)
    found = {"hosts": [host | {"workers": [worker]}], "leader": EVIL, "term": EVIL}
    show_cluster(console, found | {"queues": EVIL, "broker": None})
    assert isinstance(console.file, io.StringIO)
    check(console.file.getvalue().encode())


def test_the_last_line_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"booksan: {EVIL}", err=True)
    check(capsys.readouterr().err.encode())


def test_all_that_is_text_stays() -> None:
    text = "Żółw 東京 עברית ‎".replace("\u200e", "") + "👩\u200d🚀 é [bold] 100 %"
    assert plain(text) == shown(text).plain == text
    assert shown(["a", "b"]).plain == "a, b"
    assert json.dumps(plain("\ud800")) == '" "'
