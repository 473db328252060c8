"""A call ends with an answer or with an error that says why, however the servers behave."""

import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import booksan_client
from booksan_client.api import Api
from booksan_client.caller import Caller, Limits, Servers, Trouble
from booksan_client.connect import connect, what_to_do
from booksan_common.errors import Interrupted, NoSpace, Refused, RunGone, ServerError, UsageError
from booksan_common.files import authorization, read_token
from tests.unit.fake_gateway import ANSWER, Answer, FakeGateway, Run, Seen, error

pytestmark = pytest.mark.timeout(120)

QUICK = Limits(patience=60, no_space=0.3, internal=0.3, most_pause=0.05)


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    with FakeGateway() as gateway:
        yield gateway


@contextmanager
def api_of(
    *urls: str, limits: Limits = QUICK, look: Callable[[], object] = lambda: None, token: str = ""
) -> Iterator[Api]:
    servers = Servers(urls, first_pause=0.01, most_pause=0.05)
    caller = Caller(servers, authorization(token or None), limits=limits, while_waiting=look)
    with closing(Api(caller)) as api:
        yield api


def times(count: int, answer: Answer) -> Callable[[Seen], Answer | None]:
    """The first so many requests get this answer."""
    left = [answer] * count
    return lambda seen: left.pop() if left else None


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 507])
def test_what_may_pass_is_tried_again(status: int, gateway: FakeGateway) -> None:
    gateway.fault = times(2, error(status))
    with api_of(gateway.url) as api:
        assert api.health().status == "ok"
    assert len(gateway.seen) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 415, 422])
def test_what_cannot_pass_is_asked_once(status: int, gateway: FakeGateway) -> None:
    gateway.fault = lambda seen: error(status, "no_way")
    with api_of(gateway.url) as api, pytest.raises(Refused, match="it is no_way") as caught:
        api.client("c", "s").put("nests", 0, b"x\n")
    assert (caught.value.status, caught.value.code) == (status, "no_way")
    assert caught.value.exit_code == 7
    assert len(gateway.seen) == 1


def test_a_connection_that_is_cut_is_tried_again(gateway: FakeGateway) -> None:
    gateway.fault = times(3, Answer(0))
    with api_of(gateway.url) as api:
        assert api.health().status == "ok"


def test_retry_after_is_honoured(gateway: FakeGateway) -> None:
    gateway.fault = times(1, error(503, Retry_After="1"))
    started = time.monotonic()
    with api_of(gateway.url) as api:
        api.health()
    assert time.monotonic() - started >= 1.0


def test_a_server_that_does_not_answer_is_left_for_another(gateway: FakeGateway) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    with api_of(dead, gateway.url) as api:
        for _ in range(10):
            api.health()
    assert len(gateway.seen) == 10


def test_a_gateway_that_cannot_reach_the_home_is_left_for_another_at_once(
    gateway: FakeGateway,
) -> None:
    with FakeGateway() as cut_off:
        cut_off.fault = lambda seen: error(503, Retry_After="60")
        started = time.monotonic()
        with api_of(cut_off.url, gateway.url) as api:
            for _ in range(6):
                api.health()
        assert time.monotonic() - started < 50
        assert len(gateway.seen) == 6


def test_requests_are_spread_over_all_servers(gateway: FakeGateway) -> None:
    with FakeGateway() as other, api_of(gateway.url, other.url) as api:
        for _ in range(10):
            api.health()
        assert len(gateway.seen) == len(other.seen) == 5


def test_a_server_that_comes_back_is_used_again() -> None:
    port = free_port()
    with api_of(f"http://127.0.0.1:{port}") as api:
        with FakeGateway(port=port) as gateway:
            api.health()
        looks: list[float] = []
        restarted: list[FakeGateway] = []

        def restart() -> None:
            looks.append(time.monotonic())
            if len(looks) == 2:
                restarted.append(FakeGateway(port=port).__enter__())

        api.caller.while_waiting = restart
        try:
            assert api.health().status == "ok"
        finally:
            for gateway in restarted:
                gateway.__exit__(None, None, None)


def test_without_any_success_it_gives_up_after_the_patience_of_the_user() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with (
        api_of(url, limits=Limits(patience=0.3)) as api,
        pytest.raises(ServerError, match=f"{url}: Connection refused.*the same command") as caught,
    ):
        api.health()
    assert caught.value.exit_code == 7


def test_a_full_disk_at_the_server_is_waited_for_and_then_told(gateway: FakeGateway) -> None:
    gateway.fault = lambda seen: error(507)
    with api_of(gateway.url) as api, pytest.raises(NoSpace, match="no space left at the server"):
        api.health()
    assert len(gateway.seen) > 2


def test_a_server_that_always_breaks_is_given_up(gateway: FakeGateway) -> None:
    gateway.fault = lambda seen: error(500)
    with api_of(gateway.url) as api, pytest.raises(ServerError, match="an error of its own"):
        api.health()


@pytest.mark.parametrize(
    ("answer", "how"),
    [(error(410, "gone", "cancelled"), "cancelled"), (error(404, "unknown_client"), "")],
)
def test_a_run_that_is_not_there_any_more_is_gone(
    answer: Answer, how: str, gateway: FakeGateway
) -> None:
    gateway.fault = lambda seen: answer
    with api_of(gateway.url) as api, pytest.raises(RunGone) as caught:
        api.client("c", "s").status()
    assert (caught.value.how, caught.value.exit_code) == (how, 8)


@pytest.mark.parametrize(
    "answer", [Answer(200, raw=b"<html>"), Answer(200, {"ok": 1}), Answer(302, {})]
)
def test_an_answer_of_some_other_server_is_told_from_ours(
    answer: Answer, gateway: FakeGateway
) -> None:
    gateway.fault = lambda seen: answer
    with api_of(gateway.url) as api, pytest.raises(ServerError):
        api.dataset("birds")


def test_what_a_newer_server_adds_is_passed_over(gateway: FakeGateway) -> None:
    gateway.runs["c"] = Run({"params": {}}, "s")
    known = gateway.runs["c"].status("c")
    sources = {name: each | {"odd": [1]} for name, each in known["sources"].items()}
    newer = known | {"sources": sources, "state": "resting", "odd": {"a": None}}
    gateway.fault = lambda seen: Answer(200, newer)
    with api_of(gateway.url) as api:
        status = api.client("c", "s").status()
    assert (status.state, status.source("eggs").complete) == ("resting", False)


def test_one_connection_serves_all_requests_of_a_thread(gateway: FakeGateway) -> None:
    accepted: list[object] = []
    verify = gateway._server.verify_request
    gateway._server.verify_request = lambda *words: accepted.append(words) or verify(*words)  # type: ignore[method-assign,func-returns-value]
    with api_of(gateway.url) as api:
        for _ in range(5):
            api.health()
    assert len(accepted) == 1


def test_an_idle_connection_that_the_server_closed_costs_no_pause(gateway: FakeGateway) -> None:
    with api_of(gateway.url, limits=Limits(patience=0)) as api:
        api.health()
        gateway.fault = times(1, Answer(0))
        assert api.health().status == "ok"


def test_an_answer_that_is_cut_short_is_fetched_again_from_its_start(
    gateway: FakeGateway, tmp_path: Path
) -> None:
    gateway.runs["c"] = Run({"params": {}}, "s")
    cut = Answer(200, raw=ANSWER[:9], headers={"Content-Length": str(len(ANSWER))})
    gateway.fault = times(1, cut)
    pieces: list[bytes] = []

    def begin() -> Callable[[bytes], object]:
        pieces.clear()
        return pieces.append

    with api_of(gateway.url) as api:
        api.client("c", "s").answer("q1", "csv", begin)
    assert b"".join(pieces) == ANSWER
    assert len(gateway.seen) == 2


def test_closing_ends_a_request_that_waits_for_its_answer(gateway: FakeGateway) -> None:
    asked, enough = threading.Event(), threading.Event()

    def hold(seen: Seen) -> None:
        asked.set()
        enough.wait(60)

    gateway.fault = hold
    raised: list[BaseException] = []

    def ask(api: Api) -> None:
        try:
            api.health()
        except Interrupted as error:
            raised.append(error)

    with api_of(gateway.url) as api:
        thread = threading.Thread(target=ask, args=(api,))
        thread.start()
        assert asked.wait(30)
    thread.join(30)
    enough.set()
    assert not thread.is_alive()
    assert len(raised) == 1


def test_waiting_ends_when_the_user_wants_to_stop() -> None:
    def look() -> None:
        raise Interrupted

    with api_of(f"http://127.0.0.1:{free_port()}", look=look) as api, pytest.raises(Interrupted):
        api.health()


def test_the_token_and_the_secret_go_along_and_nowhere_else(gateway: FakeGateway) -> None:
    gateway.runs["c"] = Run({"params": {}}, "s")
    with api_of(gateway.url, token="t0ken") as api:
        api.client("c", "s").status()
        api.health()
    with_secret, without = gateway.seen
    assert (
        with_secret.headers["authorization"] == without.headers["authorization"] == "Bearer t0ken"
    )
    assert with_secret.headers["booksan-secret"] == "s"
    assert "booksan-secret" not in without.headers
    assert "t0ken" not in with_secret.path


def test_a_token_comes_from_a_file_or_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("from-file\n")
    monkeypatch.setenv("BOOKSAN_TOKEN", "from-env")
    assert read_token(file, "BOOKSAN_TOKEN") == "from-file"
    assert read_token(None, "BOOKSAN_TOKEN") == "from-env"
    monkeypatch.delenv("BOOKSAN_TOKEN")
    assert read_token(None, "BOOKSAN_TOKEN") is None


@pytest.mark.parametrize("content", [b"", b"two\nlines", b"\xff\xfe", "żółw".encode()])
def test_a_file_that_holds_no_token_is_refused_without_telling_what_it_holds(
    content: bytes, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="holds no token") as caught:
        read_token(file, "BOOKSAN_TOKEN")
    assert "two" not in str(caught.value)


def test_somebody_who_waits_hears_why(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("booksan_client.caller.TELL_AFTER", 0.1)
    told: list[str] = []

    def enough() -> None:
        if told:
            gateway.fault = lambda seen: None

    gateway.fault = lambda seen: error(429, "full_house")
    servers = Servers([gateway.url])
    caller = Caller(servers, {}, limits=QUICK, while_waiting=enough, trouble=Trouble(told.append))
    with closing(Api(caller)) as api:
        assert api.health().status == "ok"
    assert told == [f"waiting for a server ({gateway.url}: it is full_house)"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_where_no_server_is_on_this_machine_it_is_said_how_to_start_one(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("booksan_client.caller.TELL_NONE_AFTER", 0.1)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://{host}:{nobody.getsockname()[1]}"
        told: list[str] = []
        with (
            closing(connect([url], None, lambda: None, 0.5, told.append)) as api,
            pytest.raises(ServerError) as caught,
        ):
            api.health()
    assert "start one with `booksan host`" in str(caught.value)
    assert str(caught.value).endswith("; then the same command goes on where it was")
    assert told[0].startswith(f"waiting for a server ({url}: ")
    assert "start one with `booksan host`" in told[0]


def test_a_server_elsewhere_has_other_causes_and_one_that_answers_is_there(
    gateway: FakeGateway,
) -> None:
    advice = what_to_do(["http://127.0.0.1:1", "http://books.example.org:7300"])
    assert "booksan host" not in advice
    assert "check the address" in advice
    gateway.fault = lambda seen: error(503, "home_away", Retry_After="1")
    with (
        closing(connect([gateway.url], None, lambda: None, 0.3)) as api,
        pytest.raises(ServerError) as caught,
    ):
        api.health()
    assert "start one" not in str(caught.value)


def test_a_server_is_reached_by_https_if_its_certificate_is_trusted(
    gateway: FakeGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    _make_certificate(certificate, key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    gateway._server.socket = context.wrap_socket(gateway._server.socket, server_side=True)
    url = f"https://localhost:{gateway.port}"
    with api_of(url, limits=Limits(patience=0.2)) as api, pytest.raises(ServerError, match="cert"):
        api.health()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with api_of(url) as api:
        assert api.health().status == "ok"


def _make_certificate(certificate: Path, key: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)


def test_the_client_needs_nothing_of_the_rest_of_booksan() -> None:
    root = Path(booksan_client.__file__).parent
    names = [f"booksan_client.{path.stem}" for path in root.glob("[!_]*.py")]
    program = f"import sys, {', '.join(names)}\nprint(*sys.modules)"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert len(names) > 15
    assert not loaded & {"booksan", "polars", "httpx", "requests", "psutil", "numpy"}


@pytest.mark.parametrize("code", ["queues_full", "busy"])
def test_a_server_that_holds_back_is_waited_for_longer_than_the_patience(
    code: str, gateway: FakeGateway
) -> None:
    """It is alive and says when to come again; only silence is given up."""
    started = time.monotonic()

    def hold_back(seen: Seen) -> Answer | None:
        full = time.monotonic() - started < 2.5
        return error(503, code, Retry_After="1") if full else None

    gateway.fault = hold_back
    with api_of(gateway.url, limits=Limits(patience=1.5)) as api:
        assert api.health().status == "ok"


@pytest.mark.parametrize("answer", [error(503, "home_away", Retry_After="1"), error(503, "busy")])
def test_a_server_that_cannot_work_is_given_up_though_it_answers(
    answer: Answer, gateway: FakeGateway
) -> None:
    gateway.fault = lambda seen: answer
    limits = Limits(patience=0.5, most_pause=0.05)
    with api_of(gateway.url, limits=limits) as api, pytest.raises(ServerError, match="no server"):
        api.health()
