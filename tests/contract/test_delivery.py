"""What goes in comes out: whole, bounded, in fair turns."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from booksan.errors import QueueBusy, TransportError
from booksan.transport import Delivery, Depth, Outgoing, Transport
from tests.contract.actors import body_of, index_of
from tests.contract.places import ALL_BYTES, SOON, Place, drain, receive_exactly

MIB = 1 << 20


@pytest.mark.parametrize("size", [0, 1, 4096, 8 * MIB])
def test_a_body_comes_back_byte_for_byte(transport: Transport, size: int) -> None:
    body = random.Random(size).randbytes(size)
    transport.publish([Outgoing("work", body)])
    assert transport.depth("work") == Depth(1, size)
    assert drain(transport, "work") == [body]


def test_nothing_is_lost_when_the_queue_was_not_there_yet(place: Place) -> None:
    place.open().publish([Outgoing("new", b"first")])
    later = place.open()
    assert later.depth("new") == Depth(1, 5)
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
        deliveries = receive_exactly(consumer, 150)
        consumer.acknowledge(deliveries)
    for actor in actors:
        actor.join()
    assert sorted(index_of(delivery.body) for delivery in deliveries) == list(range(150))
    assert transport.depth("work") == Depth(0, 0)


def test_receive_stops_at_the_number_of_messages(transport: Transport) -> None:
    transport.publish([Outgoing("work", bytes(10))] * 10)
    with transport.consume("work") as consumer:
        assert [len(consumer.receive(4, MIB, 0.1)) for _ in range(4)] == [4, 4, 2, 0]


def test_receive_stops_at_the_number_of_bytes(transport: Transport) -> None:
    transport.publish([Outgoing("work", bytes(10))] * 7)
    with transport.consume("work") as consumer:
        assert [len(consumer.receive(100, 35, 0.1)) for _ in range(3)] == [3, 3, 1]


def test_a_message_over_the_bound_in_bytes_comes_alone(transport: Transport) -> None:
    for size in (10, 500, 10, 20):
        transport.publish([Outgoing("work", bytes(size))])
    with transport.consume("work") as consumer:
        groups = [consumer.receive(100, 100, 0.1) for _ in range(3)]
    assert [[len(delivery.body) for delivery in group] for group in groups] == [
        [10],
        [500],
        [10, 20],
    ]


def test_a_message_is_handed_out_once_by_a_consumer(transport: Transport) -> None:
    transport.publish([Outgoing("work", b"one")])
    with transport.consume("work") as consumer:
        assert [delivery.body for delivery in consumer.receive(10, MIB, SOON)] == [b"one"]
        transport.publish([Outgoing("work", b"two")])
        assert [delivery.body for delivery in consumer.receive(10, MIB, SOON)] == [b"two"]
        assert consumer.receive(10, MIB, 0) == []
        assert transport.depth("work") == Depth(2, 6)


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
