"""What goes over the wire, and what does not, however a server behaves."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from booksan_client import wire as module
from booksan_client.wire import Broken, Request, Wire
from tests.unit.fake_gateway import Answer, FakeGateway, Seen

pytestmark = pytest.mark.timeout(60)

HEALTH = Request("GET", "/v1/health")
#: More than the buffers of both ends hold.
LARGE = Request("PUT", "/v1/x", body=bytes(16 * 1024 * 1024))


@pytest.fixture
def wire() -> Iterator[Wire]:
    with closing(Wire()) as wire:
        yield wire


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    with FakeGateway() as gateway:
        yield gateway


@contextmanager
def serving(serve: Callable[[socket.socket], object]) -> Iterator[str]:
    """The address of a server that does this with its first connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            connection, _ = listener.accept()
            with connection:
                serve(connection)

        thread = threading.Thread(target=accept)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def test_nobody_is_sent_elsewhere_with_credentials(gateway: FakeGateway, wire: Wire) -> None:
    with FakeGateway() as other:
        gateway.fault = lambda seen: Answer(307, {}, {"Location": f"{other.url}/v1/health"})
        assert wire.send(gateway.url, HEALTH).status == 307
    assert not other.seen


def test_proxies_of_the_environment_are_none_of_ours(
    gateway: FakeGateway, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeGateway() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert wire.send(gateway.url, HEALTH).status == 200
    assert not proxy.seen


def test_an_answer_without_end_does_not_fill_the_memory(
    gateway: FakeGateway, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_ANSWER", 1000)
    gateway.fault = lambda seen: Answer(200, raw=bytes(1001))
    with pytest.raises(Broken, match="more than 1000 bytes"):
        wire.send(gateway.url, HEALTH)
    took: list[bytes] = []
    wire.send(gateway.url, HEALTH, lambda: took.append)
    assert len(b"".join(took)) == 1001


def test_compressed_answers_are_not_unpacked(gateway: FakeGateway, wire: Wire) -> None:
    gateway.fault = lambda seen: Answer(200, raw=b"packed", headers={"Content-Encoding": "gzip"})
    assert wire.send(gateway.url, HEALTH).body == b"packed"


def test_a_server_may_refuse_a_body_before_it_has_read_it(wire: Wire) -> None:
    def refuse(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 413 no\r\nContent-Length: 2\r\n\r\n{}")

    with serving(refuse) as url:
        assert wire.send(url, LARGE).status == 413


def test_a_server_may_take_longer_for_a_body_than_it_takes_to_reach_it(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dawdle(connection: socket.socket) -> None:
        left = len(LARGE.body or b"")
        left -= len(connection.recv(65536).partition(b"\r\n\r\n")[2])
        # The time itself is what is tried here.
        time.sleep(1.0)
        while left:
            left -= len(connection.recv(1 << 20))
        connection.sendall(b"HTTP/1.1 200 ok\r\nContent-Length: 2\r\n\r\n{}")

    monkeypatch.setattr(module, "CONNECT_TIMEOUT", 0.2)
    with serving(dawdle) as url:
        assert wire.send(url, LARGE).body == b"{}"


def test_an_answer_that_does_not_come_is_told_in_words(gateway: FakeGateway, wire: Wire) -> None:
    enough = threading.Event()

    def hold(seen: Seen) -> None:
        enough.wait(30)

    gateway.fault = hold
    with pytest.raises(Broken, match=r"^no answer in time$") as caught:
        wire.send(gateway.url, Request("GET", "/v1/health", timeout=0.1))
    enough.set()
    assert not caught.value.away


def test_a_server_that_is_not_there_is_away_and_said_why(wire: Wire) -> None:
    with pytest.raises(Broken, match=r"^Connection refused$") as caught:
        wire.send("http://127.0.0.1:1", HEALTH)
    assert caught.value.away
    with pytest.raises(Broken, match="label empty or too long"):
        wire.send(f"http://{64 * 'a'}.example", HEALTH)


def test_a_cut_answer_says_how_much_was_lacking(gateway: FakeGateway, wire: Wire) -> None:
    gateway.fault = lambda seen: Answer(200, raw=b"12345", headers={"Content-Length": "12"})
    with pytest.raises(Broken, match=r"^the answer ended 7 bytes too early$"):
        wire.send(gateway.url, HEALTH)


def test_whose_connections_were_closed_opens_no_more(gateway: FakeGateway, wire: Wire) -> None:
    wire.send(gateway.url, HEALTH)
    wire.close()
    with pytest.raises(Broken, match="closed"):
        wire.send(gateway.url, HEALTH)
    with FakeGateway() as other, pytest.raises(Broken, match="closed"):
        wire.send(other.url, HEALTH)
    assert len(gateway.seen) == 1
    assert not other.seen
