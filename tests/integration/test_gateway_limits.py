"""No client, however large, slow or numerous, keeps the gateway from serving the others."""

import csv
import gzip
import io
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
import zstandard
from msgspec.structs import replace

from booksan.errors import EXIT_CANNOT_START
from booksan.gateway.config import GatewayConfig, write_gateway_config
from booksan.gateway.protocol import OTHER_FILES
from booksan.gateway.uploads import QUEUE_LIMIT
from booksan.transport.base import Outgoing
from booksan.transport.spool import Spool
from tests.support.data import Sample, sample
from tests.support.gateway_host import CONFIG, HttpClient, Running, error_of, running

LIMIT = 256 * 1024
CONNECTIONS = 240
SECONDS = 1.5
CLIENTS = 3
TIGHT: GatewayConfig = replace(
    CONFIG,
    max_batch_bytes=LIMIT,
    max_connections=CONNECTIONS,
    max_clients=CLIENTS,
    header_seconds=SECONDS,
    body_seconds=SECONDS,
    room_seconds=SECONDS,
)
#: Seconds in which a busy machine surely gets round to what is due.
PATIENCE = 60.0


@pytest.fixture(scope="module")
def alpha(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("alpha"), TIGHT, stages=("results",)) as found:
        yield found
    assert found.log() == "", "what clients do wrong is not worth a line each"


@pytest.fixture(scope="module")
def data() -> Sample:
    return sample(5, books=60, reviews=80, dirty=True)


@pytest.fixture(scope="module")
def client(alpha: Running, data: Sample) -> Iterator[HttpClient]:
    with alpha.client("mine") as found:
        assert found.create(data).status_code == 201
        yield found


def connect(alpha: Running) -> socket.socket:
    address = urlsplit(alpha.url)
    assert address.hostname
    assert address.port
    return socket.create_connection((address.hostname, address.port), PATIENCE)


def everything_from(connection: socket.socket) -> bytes:
    """Until the other side closes; a reset ends it as well."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def head(client: HttpClient, number: int, length: int) -> bytes:
    secret = client.http.headers["Booksan-Secret"]
    path = f"{client.path}/sources/books/batches/{number}"
    return (
        f"PUT {path} HTTP/1.1\r\nHost: localhost\r\nBooksan-Secret: {secret}\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


def memory(alpha: Running) -> int:
    return int(psutil.Process(alpha.gateway_pid()).memory_info().rss)


def peak(alpha: Running) -> int:
    """The most memory that the gateway ever had, in bytes."""
    status = Path(f"/proc/{alpha.gateway_pid()}/status").read_text()
    [kilobytes] = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(kilobytes) * 1024


def test_a_body_over_the_limit_is_refused_however_it_comes(
    alpha: Running, client: HttpClient
) -> None:
    large = b"x" * (LIMIT + 1)
    assert error_of(client.put("books", 0, large)) == (413, "too_large")
    path = f"{client.path}/sources/books/batches/0"
    chunked = client.http.put(path, content=iter([large[: LIMIT // 2]] * 3))
    assert error_of(chunked) == (413, "too_large")
    endless = client.http.post("/v1/clients", content=iter([b" " * 100_000] * 20))
    assert error_of(endless) == (413, "too_large")
    assert client.status()["sources"]["books"]["batches"] == 0


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_bomb_is_refused_and_takes_no_memory(
    alpha: Running, client: HttpClient, encoding: str
) -> None:
    zeros = b"\0" * 200_000_000
    if encoding == "gzip":
        bomb = gzip.compress(zeros, 9)
    else:
        bomb = zstandard.ZstdCompressor(level=3).compress(zeros)
    assert len(bomb) < LIMIT
    before = memory(alpha)
    answer = client.put("books", 0, bomb, {"Content-Encoding": encoding})
    assert error_of(answer) == (413, "too_large")
    assert memory(alpha) - before < 64 * 1024 * 1024


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_broken_compression_is_refused(client: HttpClient, data: Sample, encoding: str) -> None:
    batch = data.batches["books"][0]
    packed = gzip.compress(batch) if encoding == "gzip" else zstandard.compress(batch)
    for broken in (b"", b"x", packed[:-3], packed[:10] + b"!" + packed[11:], packed + b"x"):
        answer = client.put("books", 0, broken, {"Content-Encoding": encoding})
        assert error_of(answer) == (400, "broken_compression"), broken
    wrong = client.put("books", 0, packed, {"Content-Encoding": "br"})
    assert error_of(wrong) == (415, "unknown_encoding")


def test_a_refused_connection_can_be_used_again(alpha: Running, client: HttpClient) -> None:
    with connect(alpha) as connection:
        connection.sendall(head(client, 0, 1000).replace(b"PUT", b"PUP", 1))
        assert b" 400 " in everything_from(connection)
    refused = client.http.put(
        f"{client.path}/sources/nothing/batches/0", content=b"x" * LIMIT
    ).extensions["network_stream"]
    again = client.get().extensions["network_stream"]
    assert refused is again


def test_slow_heads_are_cut_off(alpha: Running) -> None:
    for beginning in (b"", b"GET /v1/hea", b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n"):
        with connect(alpha) as connection:
            begun = time.monotonic()
            connection.sendall(beginning)
            assert everything_from(connection) == b""
            assert time.monotonic() - begun > SECONDS / 2


def test_a_head_that_trickles_gets_no_more_time(alpha: Running) -> None:
    with connect(alpha) as connection:
        begun = time.monotonic()
        connection.settimeout(0.1)
        connection.sendall(b"GET /v1/health HTTP/1.1\r\n")
        closed = False
        while not closed and time.monotonic() - begun < PATIENCE:
            try:
                connection.sendall(b"X: y\r\n")
                closed = connection.recv(1) == b""
            except TimeoutError:
                continue
            except (ConnectionResetError, BrokenPipeError):
                closed = True
        assert closed


def test_a_head_without_end_is_cut_off(alpha: Running) -> None:
    with connect(alpha) as connection:
        connection.sendall(b"GET /v1/health HTTP/1.1\r\nX: ")
        connection.sendall(b"y" * 1_000_000)
        answer = everything_from(connection)
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "head_too_large"


def test_slow_bodies_are_cut_off(alpha: Running, client: HttpClient) -> None:
    with connect(alpha) as connection:
        connection.sendall(head(client, 0, 1000) + b"only this")
        answer = everything_from(connection)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "too_slow"


def test_a_body_that_is_cut_short_is_no_batch(alpha: Running, client: HttpClient) -> None:
    for _ in range(3):
        with connect(alpha) as connection:
            connection.sendall(head(client, 0, 1000) + b"only this")
    assert client.status()["sources"]["books"]["batches"] == 0


def test_idle_connections_harm_nobody(alpha: Running, data: Sample) -> None:
    with ExitStack() as stack, alpha.client("working") as worker:
        for _ in range(200):
            stack.enter_context(connect(alpha))
        assert worker.create(data).status_code == 201
        for number, batch in enumerate(data.batches["books"]):
            assert worker.put("books", number, batch).status_code == 200
        assert worker.http.delete(worker.path).json() == {"how": "cancelled"}


def test_the_connection_over_the_limit_is_told_so(alpha: Running, client: HttpClient) -> None:
    with ExitStack() as stack:
        kept = [stack.enter_context(keep_alive(alpha)) for _ in range(CONNECTIONS // 2)]
        refused = b""
        while not refused and len(kept) <= CONNECTIONS:
            connection = connect(alpha)
            stack.enter_context(connection)
            connection.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = connection.recv(65536)
            kept.append(connection)
            refused = answer if b" 503 " in answer else b""
        assert b"Retry-After" in refused
        body = json.loads(refused.partition(b"\r\n\r\n")[2])
        assert body["error"]["code"] == "too_many_connections"
        assert client.status()["state"] == "uploading"
    deadline = time.monotonic() + PATIENCE
    while healthy(alpha) != 200:
        assert time.monotonic() < deadline


def keep_alive(alpha: Running) -> socket.socket:
    """A connection that has had its first request, and may stay."""
    connection = connect(alpha)
    connection.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
    return connection


def healthy(alpha: Running) -> int:
    with httpx.Client(trust_env=False, timeout=PATIENCE) as http:
        return http.get(f"{alpha.url}/v1/health").status_code


def test_too_many_clients_are_refused_until_one_is_gone(
    alpha: Running, client: HttpClient, data: Sample
) -> None:
    with ExitStack() as stack:
        others = [stack.enter_context(alpha.client(f"client-{n}")) for n in range(CLIENTS)]
        for other in others[:-1]:
            assert other.create(data).status_code == 201
        refused = others[-1].create(data)
        assert error_of(refused) == (429, "too_many_clients")
        assert int(refused.headers["Retry-After"]) > 0
        assert others[0].create(data).status_code == 200
        for other in others[:-1]:
            assert other.http.delete(other.path).status_code == 200
        assert others[-1].create(data).status_code == 201
        assert others[-1].http.delete(others[-1].path).status_code == 200


def test_full_queues_hold_a_batch_back_and_then_refuse_it(
    alpha: Running, client: HttpClient, data: Sample
) -> None:
    batch = data.batches["books"][0]
    with Spool(alpha.root, sync=False) as spool:
        spool.publish([Outgoing("q1-filter.0", b"x")] * QUEUE_LIMIT.messages)
        begun = time.monotonic()
        refused = client.put("books", 0, batch)
        assert error_of(refused) == (503, "queues_full")
        assert "Retry-After" in refused.headers
        assert time.monotonic() - begun >= SECONDS
        assert error_of(client.end("books", 1)) == (503, "queues_full")
        assert client.status()["sources"]["books"]["batches"] == 0
    for message in (alpha.root / "queues" / "q1-filter.0" / "messages").iterdir():
        message.unlink()
    assert client.put("books", 0, batch).status_code == 200


def test_a_gateway_starts_without_its_queues_and_serves_when_they_are_there(
    tmp_path: Path,
) -> None:
    place = tmp_path / "elsewhere"
    place.write_text("in the way")
    env = {"BOOKSAN_QUEUES": f"spool:{place}"}
    (tmp_path / "host").mkdir()
    with running(tmp_path / "host", env=env, stages=()) as alone:
        assert healthy(alone) == 503
        place.unlink()
        deadline = time.monotonic() + PATIENCE
        while healthy(alone) != 200:
            assert time.monotonic() < deadline


#: What one connection sends over and over, after a beginning that keeps a request in hand.
FLOODS = {
    "trailers": (
        b"POST /v1/clients HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        b"X: y\r\n",
    ),
    "heads": (b"", b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    "early head": (
        b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2 + b"GET / HTTP/1.1\r\n",
        b"X: y\r\n",
    ),
}
FLOOD_BYTES = 48 * 1024 * 1024
MOST_MEMORY = 400 * 1024 * 1024


def flood(alpha: Running, kind: str) -> None:
    beginning, again = FLOODS[kind]
    piece = again * (1024 * 1024 // len(again))
    with connect(alpha) as connection, suppress(ConnectionError, TimeoutError):
        # A gateway that reads no more is as good as one that closes.
        connection.settimeout(5)
        connection.sendall(beginning)
        for _ in range(FLOOD_BYTES // len(piece)):
            connection.sendall(piece)


@pytest.mark.parametrize("kind", FLOODS)
def test_what_is_no_body_takes_no_memory(
    alpha: Running, kind: str, record_property: Callable[[str, object], None]
) -> None:
    """Others are served meanwhile."""
    with ThreadPoolExecutor(2) as floods, alpha.client("polite") as polite:
        pending = [floods.submit(flood, alpha, kind) for _ in range(2)]
        answers = 0
        while not all(each.done() for each in pending):
            answer = polite.http.get("/v1/health", timeout=5)
            assert answer.status_code == 200
            answers += 1
        for each in pending:
            each.result()
    assert answers
    record_property(f"most memory of the gateway in a flood of {kind}, MB", peak(alpha) // 10**6)
    assert peak(alpha) < MOST_MEMORY


#: Lists nearly as long as a row may be, and two such rows fill a batch; compressed, they have
#: some kilobytes.
LISTS = {
    "names": "['ab'" + ", 'ab'" * 690_000 + "]",
    "numbers": "[" + "1," * 2_080_000 + "]",
    "nested": "[" + "['a']," * 690_000 + "]",
}

#: Clients that send such batches at once.
GREEDY = 8


def put_until_taken(client: HttpClient, body: bytes) -> httpx.Response:
    """As a client does that is told to send it again."""
    while True:
        answer = client.put("books", 0, body, {"Content-Encoding": "gzip"})
        if answer.status_code != 503:
            return answer
        assert error_of(answer) == (503, "busy")
        time.sleep(int(answer.headers["Retry-After"]))


@pytest.mark.parametrize(
    ("kind", "column"), [*((kind, "authors") for kind in LISTS), ("numbers", "categories")]
)
def test_a_long_list_takes_little_memory_and_keeps_nobody_waiting(
    tmp_path: Path,
    data: Sample,
    kind: str,
    column: str,
    record_property: Callable[[str, object], None],
) -> None:
    """With as many at once as several clients may send; those that are one too many come again."""
    columns = data.columns["books"]
    row = dict.fromkeys(columns, "x") | {column: LISTS[kind], "publishedDate": "1999"}
    text = io.StringIO()
    csv.DictWriter(text, columns).writerows(row | {"Title": title} for title in "xy")
    body = gzip.compress(text.getvalue().encode())
    assert len(body) < 64 * 1024
    with (
        running(tmp_path, CONFIG, stages=("results",)) as alpha,
        ExitStack() as stack,
        alpha.client("polite") as polite,
        ThreadPoolExecutor(GREEDY) as uploads,
    ):
        all_greedy = [stack.enter_context(alpha.client(f"greedy-{n}")) for n in range(GREEDY)]
        for greedy in all_greedy:
            assert greedy.create(data).status_code == 201
        pending = [uploads.submit(put_until_taken, greedy, body) for greedy in all_greedy]
        answers = 0
        while not all(each.done() for each in pending):
            begun = time.monotonic()
            assert polite.http.get("/v1/health").status_code == 200
            assert time.monotonic() - begun < 3, "it blocks"
            answers += 1
        for each in pending:
            assert each.result().json() == {"rows": 2, "rejected": 0}
        assert answers
        record_property(
            f"most memory of the gateway with lists of {kind} as {column}, MB", peak(alpha) // 10**6
        )
        assert peak(alpha) < MOST_MEMORY


@pytest.mark.parametrize("files", [64, OTHER_FILES])
def test_a_gateway_without_files_for_a_connection_does_not_start(
    tmp_path: Path, files: int
) -> None:
    write_gateway_config(tmp_path, CONFIG)
    code = (
        "import resource, sys, pathlib; from booksan.gateway.main import run; "
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files})); "
        "sys.exit(run(pathlib.Path(sys.argv[1]), 'gateway', 0))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ended.returncode == EXIT_CANNOT_START
    assert f"only {files} open files are allowed" in ended.stdout + ended.stderr
