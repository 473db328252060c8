"""From addresses to transports, and from addresses to logs."""

import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from booksan.errors import UsageError
from booksan.transport import Outgoing, Spool, check_address, masked, open_transport
from booksan.transport.rabbitmq import RabbitMQ
from booksan.transport.rabbitmq_address import BrokerAddress, parse_broker_address


def test_a_spool_is_opened_by_its_path(tmp_path: Path) -> None:
    for number, start in enumerate(("spool:", "spool://")):
        path = tmp_path / f"a place {number}"
        with open_transport(f"{start}{path}", sync=False) as transport:
            assert isinstance(transport, Spool)
            transport.publish([Outgoing("work", b"x")])
        assert (path / "queues" / "work").is_dir()


def test_a_broker_is_not_reached_for_before_it_is_needed() -> None:
    with open_transport("amqp://nowhere.invalid/") as transport:
        assert isinstance(transport, RabbitMQ)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("amqp://broker", BrokerAddress("broker")),
        ("amqp://broker/", BrokerAddress("broker")),
        ("amqp://broker/%2F", BrokerAddress("broker")),
        ("amqp://u:p@broker:1234/v", BrokerAddress("broker", 1234, "u", "p", "v")),
        ("amqp://u:p@[::1]:1234/v", BrokerAddress("::1", 1234, "u", "p", "v")),
        (
            "amqp://u%40x:p%3A%2F%23@broker/a%2Fb",
            BrokerAddress("broker", 5672, "u@x", "p:/#", "a/b"),
        ),
        ("amqp://u:@broker", BrokerAddress("broker", user="u", password="")),
        ("amqp://broker#one", BrokerAddress("broker", prefix="one")),
        (
            "amqp://broker/?queue_type=quorum#one",
            BrokerAddress("broker", queue_type="quorum", prefix="one"),
        ),
        ("amqp://broker?queue_type=classic", BrokerAddress("broker")),
        ("amqps://broker", BrokerAddress("broker", 5671, tls=True)),
    ],
)
def test_all_parts_of_a_broker_address_are_read(address: str, expected: BrokerAddress) -> None:
    assert parse_broker_address(address) == expected
    check_address(address)


def test_the_prefix_stands_before_every_queue() -> None:
    assert BrokerAddress(prefix="one").queue_name("q3-join.0") == "one.q3-join.0"
    assert BrokerAddress().queue_name("q3-join.0") == "q3-join.0"


def test_tls_verifies_the_broker() -> None:
    context = parse_broker_address("amqps://broker").tls_context()
    assert context is not None
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert parse_broker_address("amqp://broker").tls_context() is None


def test_a_file_without_certificates_is_told(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("nothing")
    address = parse_broker_address(f"amqps://broker?cafile={file}")
    assert address.cafile == file
    with pytest.raises(UsageError, match=r"ca\.pem"):
        address.tls_context()


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("", "begins with none"),
        ("/var/lib/booksan", "begins with none"),
        ("http://u:secret@host/", "begins with none"),
        ("spool:", "absolute path"),
        ("spool:here", "absolute path"),
        ("amqp:", "no host"),
        ("amqp://", "no host"),
        ("amqp://u:secret@/v", "no host"),
        ("amqp://u:secret@host:port/", "cannot be read"),
        ("amqp://u:secret@host:99999/", "cannot be read"),
        ("amqp://u:secret@[::1/", "cannot be read"),
        ("amqp://u:sec/ret@host/", "cannot be read"),
        ("amqp://u:sec?ret@host/", "cannot be read"),
        ("amqp://u:sec#ret@host/", "cannot be read"),
        ("amqp://u:12/secret@host/", "in a place"),
        ("amqp://u:secret%FF@host/", "UTF-8"),
        ("amqp://u:secret@host/?queue_type=stream", "neither classic nor quorum"),
        ("amqp://u:secret@host/?queue=quorum", "unknown option 'queue'"),
        ("amqp://u:secret@host/?queue_type", "cannot be read"),
        ("amqp://u:secret@host/?cafile=/dev/null", "amqps://"),
        ("amqps://u:secret@host/?cafile=ca.pem", "absolute path of a file"),
        ("amqp://u:secret@host/#a/b", "prefix"),
        ("amqp://u:secret@host/#" + "x" * 51, "prefix"),
    ],
)
def test_a_bad_address_is_refused_with_what_to_do_and_without_its_password(
    address: str, why: str
) -> None:
    for attempt in (open_transport, check_address):
        with pytest.raises(UsageError, match=why) as caught:
            attempt(address)
        assert "Write it like" in str(caught.value)
        assert "secret" not in str(caught.value)
        assert "ret@" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("spool:/var/lib/booksan", "spool:/var/lib/booksan"),
        ("amqp://host/v#p", "amqp://host/v#p"),
        ("amqp://u@host/v#p", "amqp://u@host/v#p"),
        (
            "amqp://u:secret@host:1/v?queue_type=quorum#p",
            "amqp://u:***@host:1/v?queue_type=quorum#p",
        ),
        ("amqp://u:sec@ret@host/", "amqp://u:***@host/"),
        ("amqp://u:sec/ret@host/", "amqp://***"),
        ("amqp://u:sec#ret@host/", "amqp://***"),
        ("amqp://u:secret@[::1/", "amqp://***"),
    ],
)
def test_an_address_in_a_log_has_no_password(address: str, shown: str) -> None:
    assert masked(address) == shown


def test_an_address_taken_apart_does_not_show_its_password() -> None:
    address = parse_broker_address("amqp://somebody:secret@host/v#p")
    assert str(address) == "amqp://host:5672/v"
    assert "secret" not in repr(address)
    assert address.hide("it said secret") == "it said ***"


def test_the_library_is_loaded_for_brokers_only(tmp_path: Path) -> None:
    code = (
        "import sys; from booksan.transport import open_transport; "
        f"open_transport('spool:{tmp_path}').close(); sys.exit('pika' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
