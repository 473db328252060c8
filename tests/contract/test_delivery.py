"""What goes in comes out: whole, bounded, in fair turns."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from booksan.errors import QueueBusy, TransportError
from booksan.transport import Delivery, Depth, Outgoing, Transport
from booksan.transport.base import HOLD
from tests.support.actors import body_of, index_of
from tests.support.places import (
    ALL_BYTES,
    SOON,
    Place,
    check_depth,
    drain,
    is_exact,
    receive_exactly,
)

MIB = 1 << 20


@pytest.mark.parametrize("size", [0, 1, 4096, 8 * MIB])
def test_a_body_comes_back_byte_for_byte(transport: Transport, size: int) -> None:
    body = random.Random(size).randbytes(size)
    transport.publish([Outgoing("work", body)])
    check_depth(transport, "work", Depth(1, size))
    assert drain(transport, "work") == [body]


def test_nothing_is_lost_when_the_queue_was_not_there_yet(place: Place) -> None:
    place.open().publish([Outgoing("new", b"first")])
    later = place.open()
    check_depth(later, "new", Depth(1, 5))
    assert drain(later, "new") == [b"first"]


def test_a_queue_that_nobody_used_is_empty(transport: Transport) -> None:
    assert transport.depth("unused") == Depth(0, 0)
    with transport.consume("unused") as consumer:
        assert consumer.receive(10, MIB, 0) == []


def test_many_messages_in_one_call_all_arrive_where_they_should(transport: Transport) -> None:
    queues = ["a", "b", "c.1"]
    transport.publish([Outgoing(queues[i % 3], body_of(i, 50)) for i in range(1000)])
    for number, queue in enumerate(queues):
        indexes = [index_of(body) for body in drain(transport, queue)]
        assert sorted(indexes) == list(range(number, 1000, 3))


def test_publishing_nothing_is_allowed(transport: Transport) -> None:
    transport.publish([])


def test_threads_publish_at_once_and_nothing_is_lost(transport: Transport) -> None:
    def publish(first: int) -> None:
        for index in range(first, first + 20):
            transport.publish([Outgoing("work", body_of(index, 200))])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(publish, range(0, 160, 20)))
    assert sorted(map(index_of, drain(transport, "work"))) == list(range(160))


def test_processes_publish_while_another_consumes(place: Place, transport: Transport) -> None:
    actors = [place.actor("publish_range", "work", n * 50, n * 50 + 50) for n in range(3)]
    with transport.consume("work") as consumer:
        indexes: list[int] = []
        for _ in range(3):
            deliveries = receive_exactly(consumer, 50)
            consumer.acknowledge(deliveries)
            indexes += [index_of(delivery.body) for delivery in deliveries]
    for actor in actors:
        actor.join()
    assert sorted(indexes) == list(range(150))
    check_depth(transport, "work", Depth(0, 0))


def receive_groups(transport: Transport, max_messages: int, max_bytes: int) -> list[list[int]]:
    """The sizes of all messages in the queue, group by group. A broker may send them late."""
    groups: list[list[int]] = []
    waiting = transport.depth("work").messages
    with transport.consume("work") as consumer:
        while sum(map(len, groups)) < waiting:
            deliveries = consumer.receive(max_messages, max_bytes, SOON)
            assert deliveries
            groups.append([len(delivery.body) for delivery in deliveries])
        assert consumer.receive(max_messages, max_bytes, 0) == []
    return groups


def test_a_consumer_holds_as_many_as_promised_and_goes_on_after(transport: Transport) -> None:
    transport.publish([Outgoing("work", body_of(i, 50)) for i in range(2 * HOLD)])
    with transport.consume("work") as consumer:
        first = receive_exactly(consumer, HOLD)
        consumer.acknowledge(first[1:])
        # The oldest is held for good: it must not hold up the others.
        second = receive_exactly(consumer, HOLD - 1)
        consumer.acknowledge(second)
        third = receive_exactly(consumer, 1)
    indexes = [index_of(delivery.body) for delivery in (*first, *second, *third)]
    assert sorted(indexes) == list(range(2 * HOLD))


def test_receive_stops_at_the_number_of_messages(transport: Transport) -> None:
    transport.publish([Outgoing("work", bytes(10))] * 10)
    check_depth(transport, "work", Depth(10, 100))
    groups = receive_groups(transport, 4, MIB)
    assert max(map(len, groups)) <= 4
    if is_exact(transport):
        assert groups == [[10] * 4, [10] * 4, [10] * 2]


def test_receive_stops_at_the_number_of_bytes(transport: Transport) -> None:
    transport.publish([Outgoing("work", bytes(10))] * 7)
    check_depth(transport, "work", Depth(7, 70))
    groups = receive_groups(transport, 100, 35)
    assert max(map(len, groups)) <= 3
    if is_exact(transport):
        assert groups == [[10] * 3, [10] * 3, [10]]


def test_a_message_over_the_bound_in_bytes_comes_alone(transport: Transport) -> None:
    for size in (10, 500, 10, 20):
        transport.publish([Outgoing("work", bytes(size))])
    check_depth(transport, "work", Depth(4, 540))
    groups = receive_groups(transport, 100, 100)
    assert [500] in groups
    if is_exact(transport):
        assert groups == [[10], [500], [10, 20]]


def test_a_message_is_handed_out_once_by_a_consumer(transport: Transport) -> None:
    transport.publish([Outgoing("work", b"one")])
    with transport.consume("work") as consumer:
        assert [delivery.body for delivery in consumer.receive(10, MIB, SOON)] == [b"one"]
        transport.publish([Outgoing("work", b"two")])
        assert [delivery.body for delivery in consumer.receive(10, MIB, SOON)] == [b"two"]
        assert consumer.receive(10, MIB, 0) == []
        check_depth(transport, "work", Depth(2, 6), consumed=True)


def test_a_closed_consumer_gives_back_what_it_did_not_acknowledge(transport: Transport) -> None:
    transport.publish([Outgoing("work", body_of(i, 50)) for i in range(6)])
    with transport.consume("work") as consumer:
        deliveries = consumer.receive(4, MIB, SOON)
        consumer.acknowledge(deliveries[1:3])
    gone = {index_of(delivery.body) for delivery in deliveries[1:3]}
    assert set(map(index_of, drain(transport, "work"))) == set(range(6)) - gone


def test_an_acknowledged_message_stays_away_after_a_restart(place: Place) -> None:
    transport = place.open()
    transport.publish([Outgoing("work", b"done"), Outgoing("work", b"open")])
    with transport.consume("work") as consumer:
        deliveries = receive_exactly(consumer, 2)
        consumer.acknowledge([delivery for delivery in deliveries if delivery.body == b"done"])
    transport.close()
    assert drain(place.open(), "work") == [b"open"]


def test_only_what_the_consumer_holds_can_be_acknowledged(transport: Transport) -> None:
    transport.publish([Outgoing("work", b"x")])
    with transport.consume("work") as consumer:
        (delivery,) = consumer.receive(1, MIB, SOON)
        consumer.acknowledge([])
        consumer.acknowledge([delivery])
        with pytest.raises(TransportError):
            consumer.acknowledge([delivery])
        with pytest.raises(TransportError):
            consumer.acknowledge([Delivery("../lock", b"")])


def test_a_second_consumer_is_refused(place: Place, transport: Transport) -> None:
    with transport.consume("work"):
        with pytest.raises(QueueBusy):
            transport.consume("work")
        with pytest.raises(QueueBusy):
            place.open().consume("work")
        transport.consume("other").close()
    transport.consume("work").close()


def test_a_client_is_not_starved_by_what_came_later(place: Place) -> None:
    many, few = place.open(), place.open()
    published: list[bytes] = []
    with few.consume("work") as consumer:
        for turn in range(10):
            group = [f"A{turn}-{i}".encode() for i in range(100)]
            many.publish([Outgoing("work", body) for body in group])
            few.publish([Outgoing("work", f"B{turn}".encode())])
            published += [*group, f"B{turn}".encode()]
        received: list[bytes] = []
        while len(received) < len(published):
            deliveries = consumer.receive(7, ALL_BYTES, SOON)
            consumer.acknowledge(deliveries)
            received += [delivery.body for delivery in deliveries]
    for turn in range(10):
        body = f"B{turn}".encode()
        assert received.index(body) <= published.index(body)


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "a/b", "../a", "a\n", "a b", "ä", "a\0", "x" * 201]
)
def test_a_bad_queue_name_is_refused(transport: Transport, name: str) -> None:
    with pytest.raises(TransportError, match="queue name"):
        transport.publish([Outgoing("good", b""), Outgoing(name, b"")])
    with pytest.raises(TransportError, match="queue name"):
        transport.consume(name)
    with pytest.raises(TransportError, match="queue name"):
        transport.depth(name)
    assert transport.depth("good") == Depth(0, 0)


def test_a_closed_transport_or_consumer_says_so(place: Place) -> None:
    transport = place.open()
    consumer = transport.consume("work")
    consumer.close()
    consumer.close()
    with pytest.raises(TransportError, match="closed"):
        consumer.receive(1, 1, 0)
    transport.close()
    transport.close()
    with pytest.raises(TransportError, match="closed"):
        transport.publish([Outgoing("work", b"")])
    with pytest.raises(TransportError, match="closed"):
        transport.consume("work")
