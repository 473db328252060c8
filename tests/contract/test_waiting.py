"""Waiting: for messages, for a wake-up, for room."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from booksan.transport import Consumer, Depth, Outgoing, Transport
from tests.support.places import SOON, Place, check_depth, drain, is_exact, receive_exactly

MIB = 1 << 20
HOUR = 3600.0


@contextmanager
def at_some_moment(action: Callable[[], object]) -> Iterator[None]:
    """Acts a little while after the block began: mostly when it waits, sometimes before."""
    timer = threading.Timer(random.uniform(0, 0.03), action)
    timer.start()
    try:
        yield
    finally:
        timer.join()


@contextmanager
def waking_on(number: signal.Signals, consumer: Consumer) -> Iterator[None]:
    before = signal.signal(number, lambda *_: consumer.wake())
    try:
        yield
    finally:
        signal.signal(number, before)


def test_receive_gives_up_after_its_timeout(transport: Transport) -> None:
    with transport.consume("work") as consumer:
        begin = time.monotonic()
        assert consumer.receive(1, MIB, 0.2) == []
        assert 0.2 <= time.monotonic() - begin < SOON


def test_a_blocked_receive_hears_of_a_message_of_another_process(
    place: Place, transport: Transport
) -> None:
    actor = place.actor("publish_on_demand", "work")
    assert actor.hear() == "ready"
    with transport.consume("work") as consumer:
        for number in range(20):
            begin = time.monotonic()
            with at_some_moment(partial(actor.tell, f"message {number}")):
                deliveries = consumer.receive(10, MIB, HOUR)
            assert [delivery.body for delivery in deliveries] == [f"message {number}".encode()]
            assert time.monotonic() - begin < SOON
            consumer.acknowledge(deliveries)


def test_wake_ends_a_receive_from_a_thread(transport: Transport) -> None:
    with transport.consume("work") as consumer:
        for _ in range(20):
            begin = time.monotonic()
            with at_some_moment(consumer.wake):
                assert consumer.receive(1, MIB, HOUR) == []
            assert time.monotonic() - begin < SOON


def test_wake_ends_a_receive_from_a_signal_handler(transport: Transport) -> None:
    with transport.consume("work") as consumer, waking_on(signal.SIGUSR1, consumer):
        for _ in range(20):
            begin = time.monotonic()
            with at_some_moment(lambda: os.kill(os.getpid(), signal.SIGUSR1)):
                assert consumer.receive(1, MIB, HOUR) == []
            assert time.monotonic() - begin < SOON


def test_wake_before_a_receive_ends_that_one_and_no_other(transport: Transport) -> None:
    transport.publish([Outgoing("work", b"x")])
    with transport.consume("work") as consumer:
        consumer.wake()
        assert consumer.receive(1, MIB, HOUR) == []
        assert [delivery.body for delivery in consumer.receive(1, MIB, SOON)] == [b"x"]


def test_wake_after_close_is_harmless(transport: Transport) -> None:
    consumer = transport.consume("work")
    consumer.close()
    consumer.wake()


def test_no_message_is_missed_while_another_thread_wakes(transport: Transport) -> None:
    stop = threading.Event()

    def disturb() -> None:
        while not stop.wait(0.001):
            consumer.wake()

    with transport.consume("work") as consumer:
        thread = threading.Thread(target=disturb)
        thread.start()
        try:
            received = 0
            for _ in range(100):
                transport.publish([Outgoing("work", b"x")])
                deadline = time.monotonic() + SOON
                while not (deliveries := consumer.receive(10, MIB, SOON)):
                    assert time.monotonic() < deadline
                consumer.acknowledge(deliveries)
                received += len(deliveries)
        finally:
            stop.set()
            thread.join()
    assert received == 100


def test_there_is_no_room_until_enough_is_acknowledged(transport: Transport) -> None:
    limit = Depth(3, 1000)
    held_wait = 0 if is_exact(transport) else SOON
    assert transport.wait_for_room(["work", "other"], limit, 0)
    transport.publish([Outgoing("work", bytes(10))] * 4)
    for left in (4, 3):
        check_depth(transport, "work", Depth(left, left * 10))
        assert not transport.wait_for_room(["work", "other"], limit, 0.05)
        assert transport.wait_for_room(["other"], limit, 0)
        with transport.consume("work") as consumer:
            deliveries = receive_exactly(consumer, left)
            # A broker does not count what it has sent to the consumer.
            assert transport.wait_for_room(["work"], limit, held_wait) != is_exact(transport)
            consumer.acknowledge(deliveries[:1])
    assert transport.wait_for_room(["work", "other"], limit, SOON)


def test_bytes_count_for_room_as_well(transport: Transport) -> None:
    transport.publish([Outgoing("work", bytes(600))] * 2)
    check_depth(transport, "work", Depth(2, 1200))
    assert not transport.wait_for_room(["work"], Depth(100, 1200), 0)
    assert transport.wait_for_room(["work"], Depth(100, 1201), 0)


def test_who_waits_for_room_goes_on_when_there_is_some(transport: Transport) -> None:
    transport.publish([Outgoing("work", b"x")])
    check_depth(transport, "work", Depth(1, 1))
    with at_some_moment(lambda: drain(transport, "work")):
        assert transport.wait_for_room(["work"], Depth(1, MIB), SOON)
