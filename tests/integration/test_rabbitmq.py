"""What the transport over a broker promises when the broker, or the way to it, fails."""

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psutil
import pytest

from booksan.broker import Broker
from booksan.errors import QueueBusy, TransportError
from booksan.transport import Consumer, Depth, Outgoing, open_transport, rabbitmq_link
from booksan.transport.rabbitmq import RabbitMQ
from booksan.transport.rabbitmq_address import parse_broker_address
from tests.support.actors import body_of, index_of
from tests.support.broker import broker as broker
from tests.support.broker import delete_queues, new_prefix
from tests.support.places import SOON, check_depth, drain, eventually, receive_exactly

MIB = 1 << 20


@pytest.fixture
def prefix(broker: Broker) -> Iterator[str]:
    prefix = new_prefix()
    yield prefix
    delete_queues(broker, [f"{prefix}.work", f"{prefix}.other"])


@pytest.fixture
def new_transport(broker: Broker, prefix: str) -> Iterator[Callable[..., RabbitMQ]]:
    opened: list[RabbitMQ] = []

    def new(options: str = "", heartbeat: int = 15) -> RabbitMQ:
        address = parse_broker_address(f"{broker.url}{options}#{prefix}")
        opened.append(RabbitMQ(address, heartbeat=heartbeat))
        return opened[-1]

    yield new
    for transport in opened:
        transport.close()


@pytest.fixture
def transport(new_transport: Callable[..., RabbitMQ]) -> RabbitMQ:
    return new_transport()


@pytest.fixture
def mortal(broker: Broker) -> Iterator[Broker]:
    """The broker, for a test that kills it."""
    yield broker
    broker.start()


def publish_until_it_fails(transport: RabbitMQ, first: int) -> tuple[list[int], TransportError]:
    """The numbers of the messages that were confirmed, and what ended it."""
    confirmed: list[int] = []
    while True:
        number = first + len(confirmed)
        try:
            transport.publish([Outgoing("work", body_of(number, 1000))])
        except TransportError as error:
            return confirmed, error
        confirmed.append(number)


def receive_until_it_fails(consumer: Consumer) -> TransportError:
    while True:
        try:
            consumer.receive(1, MIB, SOON)
        except TransportError as error:
            return error


def test_a_killed_broker_keeps_all_that_it_confirmed_and_is_used_again_when_it_is_back(
    mortal: Broker, transport: RabbitMQ, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    password = parse_broker_address(mortal.url).password
    consumer = transport.consume("other")
    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(publish_until_it_fails, transport, n * 10**6) for n in range(4)]
        assert eventually(lambda: transport.depth("work").messages > 50)
        mortal.kill()
        results = [writer.result(SOON) for writer in writers]
    errors = [error for _, error in results]
    errors.append(receive_until_it_fails(consumer))
    consumer.close()
    for attempt in (lambda: transport.depth("work"), lambda: transport.consume("work")):
        with pytest.raises(TransportError, match="Connection refused") as caught:
            attempt()
        errors.append(caught.value)
    mortal.start()
    transport.publish([Outgoing("work", body_of(10**7, 1000))])
    delivered = [index_of(body) for body in drain(transport, "work")]
    confirmed = {number for numbers, _ in results for number in numbers} | {10**7}
    assert confirmed <= set(delivered)
    # Each writer had at most one message in hand that was not confirmed.
    assert len(delivered) <= len(confirmed) + 4
    texts = [text for error in errors for text in (str(error), repr(error))]
    assert not [text for text in [*texts, caplog.text, repr(transport)] if password in text]


def test_what_a_consumer_held_when_the_connection_broke_comes_again(
    new_transport: Callable[..., RabbitMQ],
) -> None:
    transport = new_transport()
    transport.publish([Outgoing("work", body_of(i, 100)) for i in range(10)])
    consumer = transport.consume("work")
    deliveries = receive_exactly(consumer, 10)
    consumer.acknowledge(deliveries[:3])
    transport._reader.get()._link.abort("broken by the test")
    with pytest.raises(TransportError, match="broken by the test"):
        consumer.receive(1, MIB, SOON)
    with pytest.raises(TransportError):
        consumer.acknowledge(deliveries[3:])
    consumer.close()
    rest = {index_of(delivery.body) for delivery in deliveries[3:]}
    check_depth(transport, "work", Depth(7, 700))
    assert set(map(index_of, drain(transport, "work"))) == rest


def test_long_work_does_not_lose_the_connection(new_transport: Callable[..., RabbitMQ]) -> None:
    transport = new_transport(heartbeat=1)
    transport.publish([Outgoing("work", b"x")])
    with transport.consume("work") as consumer:
        (delivery,) = consumer.receive(1, MIB, SOON)
        end = time.monotonic() + 3.5
        while time.monotonic() < end:
            sum(range(10_000))
        consumer.acknowledge([delivery])
        before = transport._publisher.get()
        transport.publish([Outgoing("other", b"y")])
        assert transport._publisher.get() is before
    assert drain(transport, "work") == []


def test_a_broker_that_stands_still_is_given_up(
    broker: Broker, transport: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport.publish([Outgoing("work", b"x")])
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(rabbitmq_link, "ANSWER_SECONDS", 0.3)
            given_up = transport._publisher.get()
            with pytest.raises(TransportError, match="did not answer"):
                transport.publish([Outgoing("work", b"y")])
            # At once, not when its thread has ended it: the next call may not find it.
            assert not given_up.alive
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    transport.publish([Outgoing("work", b"z")])
    assert {b"x", b"z"} <= set(drain(transport, "work"))


def test_a_message_to_a_queue_that_was_removed_is_an_error_and_the_next_makes_it_anew(
    broker: Broker, transport: RabbitMQ, prefix: str
) -> None:
    transport.publish([Outgoing("work", b"x")])
    delete_queues(broker, [f"{prefix}.work"])
    with pytest.raises(TransportError, match=f"returned a message .* to the queue {prefix}.work"):
        transport.publish([Outgoing("other", b"o"), Outgoing("work", b"y")])
    transport.publish([Outgoing("work", b"z")])
    assert drain(transport, "work") == [b"z"]


def test_a_consumer_whose_queue_is_removed_says_so(
    broker: Broker, transport: RabbitMQ, prefix: str
) -> None:
    with transport.consume("work") as consumer:
        delete_queues(broker, [f"{prefix}.work"])
        with pytest.raises(TransportError, match="was removed"):
            consumer.receive(1, MIB, SOON)


def test_a_channel_that_the_broker_closes_is_an_error_in_receive(transport: RabbitMQ) -> None:
    """As it does when a message is not acknowledged for half an hour."""
    consumer = transport.consume("work")
    channel = consumer._channel  # type: ignore[attr-defined]
    channel.begin(lambda raw, future: raw.basic_ack(4711))
    with pytest.raises(TransportError, match="closed the channel: PRECONDITION_FAILED"):
        consumer.receive(1, MIB, SOON)
    consumer.close()
    transport.consume("work").close()


def test_a_queue_of_another_kind_is_an_error(
    new_transport: Callable[..., RabbitMQ],
) -> None:
    new_transport("?queue_type=quorum").publish([Outgoing("work", b"x")])
    for _ in range(2):
        with pytest.raises(TransportError, match=r"inequivalent arg.*Name the queue_type"):
            new_transport().publish([Outgoing("work", b"y")])


def test_quorum_queues_keep_the_contract(new_transport: Callable[..., RabbitMQ]) -> None:
    one, two = new_transport("?queue_type=quorum"), new_transport("?queue_type=quorum")
    one.publish([Outgoing("work", body_of(i, 100)) for i in range(10)])
    with one.consume("work") as consumer:
        for transport in (one, two):
            with pytest.raises(QueueBusy):
                transport.consume("work")
        deliveries = receive_exactly(consumer, 10)
        consumer.acknowledge(deliveries[:4])
    check_depth(two, "work", Depth(6, 600))
    rest = {index_of(delivery.body) for delivery in deliveries[4:]}
    assert set(map(index_of, drain(two, "work"))) == rest


def test_a_quorum_queue_keeps_a_message_however_often_it_was_delivered(
    new_transport: Callable[..., RabbitMQ],
) -> None:
    transport = new_transport("?queue_type=quorum")
    transport.publish([Outgoing("work", b"x")])
    # More often than the limit that brokers have by default.
    for _ in range(25):
        with transport.consume("work") as consumer:
            receive_exactly(consumer, 1)
    assert drain(transport, "work") == [b"x"]


@contextmanager
def alarm(broker: Broker) -> Iterator[None]:
    """The broker believes that its disk is full."""
    broker.control("set_disk_free_limit", "100000GB")
    try:
        yield
    finally:
        broker.control("set_disk_free_limit", "64MB")


def test_under_an_alarm_publishers_wait_while_consumers_go_on(
    broker: Broker, new_transport: Callable[..., RabbitMQ], monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = new_transport()
    patient.publish([Outgoing("work", b"before")])
    monkeypatch.setattr(rabbitmq_link, "BLOCKED_SECONDS", 1.0)
    impatient = new_transport()
    impatient.publish([Outgoing("other", b"before")])
    waiting = threading.Thread(target=patient.publish, args=([Outgoing("work", b"during")],))
    with alarm(broker):
        waiting.start()
        with pytest.raises(TransportError, match="short of disk or memory"):
            impatient.publish([Outgoing("other", b"during")])
        with patient.consume("work") as consumer:
            (delivery,) = consumer.receive(1, MIB, SOON)
            consumer.acknowledge([delivery])
            assert delivery.body == b"before"
            check_depth(patient, "work", Depth(0, 0))
        assert waiting.is_alive()
    waiting.join(SOON)
    assert drain(patient, "work") == [b"during"]
    impatient.publish([Outgoing("other", b"after")])
    assert {b"before", b"after"} <= set(drain(impatient, "other"))


def test_a_refused_password_is_not_told(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    address = f"amqp://booksan:open-sesame@127.0.0.1:{broker.port}/"
    with open_transport(address) as transport:
        with pytest.raises(TransportError, match="ACCESS_REFUSED") as caught:
            transport.publish([Outgoing("work", b"x")])
        everything = f"{caught.value} {caught.value!r} {transport!r} {caplog.text}"
        assert "open-sesame" not in everything
        assert "open-sesame" not in repr(transport._address)  # type: ignore[attr-defined]


def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rabbitmq_link, "SOCKET_SECONDS", 0.2)
    monkeypatch.setattr(rabbitmq_link, "CONNECT_SECONDS", 0.4)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        transport = open_transport(f"amqp://127.0.0.1:{port}/")
        begin = time.monotonic()
        with transport, ThreadPoolExecutor(20) as pool:
            attempts = [pool.submit(transport.depth, "work") for _ in range(20)]
            for attempt in attempts:
                assert "cannot connect" in str(attempt.exception(SOON))
        # Not one after the other.
        assert time.monotonic() - begin < 20 * 0.4


def test_nothing_is_left_of_a_closed_transport(new_transport: Callable[..., RabbitMQ]) -> None:
    before = set(threading.enumerate())
    connections = len(psutil.Process().net_connections())
    descriptors = psutil.Process().num_fds()
    transport = new_transport()
    transport.publish([Outgoing("work", b"x")])
    transport.consume("work").close()
    assert len(psutil.Process().net_connections()) > connections
    transport.close()
    assert set(threading.enumerate()) <= before
    assert len(psutil.Process().net_connections()) <= connections
    assert psutil.Process().num_fds() <= descriptors


def test_depth_estimates_bytes_from_what_was_published(transport: RabbitMQ) -> None:
    transport.publish([Outgoing("work", bytes(size)) for size in (100, 300)])
    assert eventually(lambda: transport.depth("work") == Depth(2, 400))
    transport.publish([Outgoing("work", bytes(200))] * 2)
    assert eventually(lambda: transport.depth("work") == Depth(4, 800))
