"""What a connection may send beside bodies: heads and trailers, counted, and one at a time."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from booksan.gateway.protocol import MAX_FIELDS, MAX_HEAD_BYTES, Connections, protocol_class

SECONDS = 30.0
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"
GET = b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n"


class App:
    """Answers with the body; remembers what it saw."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.headers: dict[bytes, bytes] = {}
        self.cut_short = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.paths.append(scope["path"])
        try:
            body = await Request(scope, receive).body()
        except ClientDisconnect:
            self.cut_short += 1
            return
        self.headers = dict(scope["headers"])
        await PlainTextResponse(body)(scope, receive, send)


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def talk(app: App, client: Talk) -> None:
    async def go() -> None:
        config = uvicorn.Config(app, ws="none", lifespan="off", log_config=None, access_log=False)
        config.load()
        kind = protocol_class(Connections(10, SECONDS))
        state = ServerState()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: kind(config, state, {}), "127.0.0.1", 0)  # type: ignore[call-arg]
        async with server, asyncio.timeout(SECONDS):
            port = server.sockets[0].getsockname()[1]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                await client(reader, writer)
            finally:
                writer.close()
            while state.tasks:
                await asyncio.wait(state.tasks)

    asyncio.run(go())


async def everything(reader: asyncio.StreamReader) -> bytes:
    found = b""
    try:
        while piece := await reader.read(65536):
            found += piece
    except ConnectionResetError:
        # What was still on its way to a closed connection.
        pass
    return found


def test_trailers_are_no_headers() -> None:
    app = App()

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + b"Booksan-Secret: late\r\nContent-Encoding: gzip\r\n\r\n")
        assert b"hello" in await reader.readuntil(b"hello")

    talk(app, client)
    assert set(app.headers) == {b"host", b"transfer-encoding"}


@pytest.mark.parametrize("trailer", [b"X: y\r\n", b"X" * 1000 + b": y\r\n", b"X"])
def test_trailers_are_bounded_and_the_request_ends(trailer: bytes) -> None:
    app = App()

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + trailer * (2 * MAX_HEAD_BYTES // len(trailer)))
        answer = await everything(reader)
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "head_too_large"

    talk(app, client)
    assert app.cut_short == 1


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * (MAX_FIELDS + 1) + b"\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"y" * (MAX_HEAD_BYTES + 1) + b"\r\n\r\n",
        b"GET /" + b"y" * (MAX_HEAD_BYTES + 1) + b" HTTP/1.1\r\n\r\n",
        b"\r\n" * MAX_HEAD_BYTES + b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 3 * MAX_HEAD_BYTES,
    ],
)
def test_heads_are_bounded(head: bytes) -> None:
    app = App()

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        assert (await everything(reader)).startswith(b"HTTP/1.1 431 ")

    talk(app, client)
    assert app.paths == []


def test_a_head_that_is_just_small_enough_is_served() -> None:
    app = App()
    name = b"X" * 100
    value = b"y" * (MAX_HEAD_BYTES // MAX_FIELDS - len(name) - 1)

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = b"GET / HTTP/1.1\r\n" + (name + b": " + value + b"\r\n") * MAX_FIELDS + b"\r\n"
        for _ in range(3):
            writer.write(head)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")

    talk(app, client)
    assert app.paths == ["/"] * 3


def test_what_is_no_request_is_told_so_in_json() -> None:
    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"this is not HTTP\r\n\r\n")
        answer = await everything(reader)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "malformed"

    talk(App(), client)


def test_nothing_is_taken_of_requests_that_come_too_early() -> None:
    """One may wait; then the connection ends: the client may send the rest again."""
    app = App()

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"".join(GET % n for n in range(1000)))
        writer.write(b"GET / HTTP/1.1\r\nX: " + b"y" * 4 * MAX_HEAD_BYTES)
        answer = await everything(reader)
        assert answer.count(b"HTTP/1.1 200 ") == 2
        assert answer.startswith(b"HTTP/1.1 200 ")

    talk(app, client)
    assert app.paths == ["/0", "/1"]


def test_a_connection_serves_one_request_after_the_other() -> None:
    app = App()

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for n in range(5):
            for byte in GET % n:
                writer.write(bytes([byte]))
                await writer.drain()
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")

    talk(app, client)
    assert app.paths == [f"/{n}" for n in range(5)]
