"""A gateway starts only with a configuration that it can keep."""

import json
import resource
import socket
from pathlib import Path

import pytest
from msgspec.structs import replace

from booksan.errors import EXIT_CANNOT_START, UsageError
from booksan.gateway import main
from booksan.gateway.access import access_from_environment
from booksan.gateway.config import (
    GATEWAY_FILE,
    Address,
    GatewayConfig,
    parse_address,
    read_address,
    read_gateway_config,
    write_address,
    write_gateway_config,
)
from booksan.gateway.protocol import OTHER_FILES, make_room_for

CONFIG = GatewayConfig(
    "alpha",
    "127.0.0.1:0",
    "three",
    {"results": 2, "q1-filter": 1},
    {0: "", 1: "http://127.0.0.1:7301"},
    {"beta": "http://127.0.0.1:7301"},
    max_clients=5,
    header_seconds=2.5,
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_gateway_config(tmp_path, CONFIG)
    assert read_gateway_config(tmp_path) == CONFIG


@pytest.mark.parametrize(
    "changes",
    [
        {"listen": "nowhere"},
        {"listen": ":7300"},
        {"listen": "127.0.0.1:70000"},
        {"shards": {"q1-filter": 1}},
        {"shards": {"results": 0}},
        {"homes": {"0": ""}},
        {"homes": {"zero": ""}},
        {"homes": {"0": "ftp://x", "1": ""}},
        {"gateways": {"beta": 7301}},
        {"max_clients": -1},
        {"max_clients": True},
        {"header_seconds": "soon"},
        {"host": 1},
        {"more": 1},
    ],
)
def test_mistakes_are_named(tmp_path: Path, changes: dict[str, object]) -> None:
    write_gateway_config(tmp_path, CONFIG)
    path = tmp_path / GATEWAY_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(UsageError, match=rf"gateway\.json.*{next(iter(changes))}"):
        read_gateway_config(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", "{"])
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / GATEWAY_FILE).write_text(text)
    with pytest.raises(UsageError, match=r"gateway\.json"):
        read_gateway_config(tmp_path)


def test_addresses() -> None:
    assert parse_address("127.0.0.1:7300") == Address("127.0.0.1", 7300)
    assert parse_address("[::1]:0") == Address("::1", 0)
    assert [
        parse_address(f"{host}:1").is_loopback
        for host in ("127.0.0.1", "127.9.9.9", "[::1]", "localhost", "0.0.0.0", "10.0.0.1", "x")
    ] == [True, True, True, True, False, False, False]


def test_others_are_let_in_only_with_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOOKSAN_TOKEN", raising=False)
    access_from_environment(CONFIG, (b"",))
    public = replace(CONFIG, listen="0.0.0.0:7300")
    with pytest.raises(UsageError, match="BOOKSAN_TOKEN"):
        access_from_environment(public, (b"",))
    monkeypatch.setenv("BOOKSAN_TOKEN", "x" * 16)
    access_from_environment(public, (b"",))


@pytest.mark.parametrize("name", ["BOOKSAN_TOKEN", "BOOKSAN_OPERATOR_TOKEN"])
def test_short_tokens_are_for_this_machine_only(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for each in ("BOOKSAN_TOKEN", "BOOKSAN_OPERATOR_TOKEN"):
        monkeypatch.setenv(each, "r" * 32)
    monkeypatch.setenv(name, "s" * 15)
    access_from_environment(CONFIG, (b"",))
    public = replace(CONFIG, listen="0.0.0.0:7300")
    with pytest.raises(UsageError, match=f"the token in {name} has 15 characters") as caught:
        access_from_environment(public, (b"",))
    assert "sss" not in str(caught.value)


def test_a_gateway_that_cannot_start_says_so_with_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "BIND_SECONDS", 0.2)
    monkeypatch.setattr(main, "StopSignal", object)
    assert main.run(tmp_path, "gateway", 0) == EXIT_CANNOT_START
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        write_gateway_config(tmp_path, replace(CONFIG, listen=f"127.0.0.1:{port}"))
        assert main.run(tmp_path, "gateway", 0) == EXIT_CANNOT_START


def test_the_port_of_the_last_time_is_preferred_but_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "OLD_PORT_SECONDS", 0.2)
    with main.listen(tmp_path, CONFIG.address) as first:
        url = main.url_of(first)
        write_address(tmp_path, url, 1)
        with main.listen(tmp_path, CONFIG.address) as second:
            assert main.url_of(second) != url
    with main.listen(tmp_path, CONFIG.address) as third:
        assert main.url_of(third) == url
    assert read_address(tmp_path) == {"url": url, "pid": 1}
    (tmp_path / "gateway-address.json").write_text('{"url": "http://127.0.0.1:x"}')
    main.listen(tmp_path, CONFIG.address).close()


def test_a_gateway_on_all_addresses_is_found_on_the_loopback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert main.url_of(listener) == f"http://127.0.0.1:{port}"


def test_no_more_connections_than_files(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    assert make_room_for(100) == 100
    assert asked == []
    assert make_room_for(1000) == 1000
    assert make_room_for(10**6) == 4096 - OTHER_FILES
    assert asked == [(2000 + OTHER_FILES, 4096), (4096, 4096)]
