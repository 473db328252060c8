"""What is promised when a process is killed with -9."""

import pytest

from booksan.errors import QueueBusy
from booksan.transport import Depth, Outgoing, Transport
from tests.support.actors import body_of, index_of
from tests.support.places import Place, check_depth, consume_soon, drain

MIB = 1 << 20


def test_what_a_killed_consumer_did_not_acknowledge_comes_again(
    place: Place, transport: Transport
) -> None:
    transport.publish([Outgoing("work", body_of(i, 100)) for i in range(10)])
    actor = place.actor("hold", "work", 6)
    assert actor.hear() == "holding"
    actor.kill()
    check_depth(transport, "work", Depth(10, 1000))
    assert sorted(map(index_of, drain(transport, "work"))) == list(range(10))


def test_what_a_killed_consumer_acknowledged_never_comes_again(
    place: Place, transport: Transport
) -> None:
    transport.publish([Outgoing("work", body_of(i, 100)) for i in range(10)])
    actor = place.actor("acknowledge_then_hold", "work", 4)
    acknowledged = {int(word) for word in actor.hear().split()}
    actor.kill()
    assert len(acknowledged) == 4
    rest = [index_of(body) for body in drain(transport, "work")]
    assert sorted(rest) == sorted(set(range(10)) - acknowledged)


@pytest.mark.parametrize("size", [100, 4 * MIB])
def test_a_killed_producer_leaves_all_it_confirmed_and_nothing_half_written(
    place: Place, transport: Transport, size: int
) -> None:
    for number in range(6):
        queue = f"work-{number}"
        actor = place.actor("publish_for_ever", queue, size)
        lines = [actor.hear() for _ in range(number)]
        lines += actor.kill()
        # index_of checks that a message is whole.
        delivered = [index_of(body) for body in drain(transport, queue)]
        confirmed = list(range(len(lines)))
        assert [int(line) for line in lines] == confirmed
        # At most the one in hand is there without a word about it.
        assert sorted(delivered) in (confirmed, [*confirmed, len(confirmed)])


def test_a_queue_has_one_consumer_until_that_one_is_killed(
    place: Place, transport: Transport
) -> None:
    for _ in range(3):
        actor = place.actor("hold", "work", 0)
        assert actor.hear() == "holding"
        with pytest.raises(QueueBusy):
            transport.consume("work")
        actor.kill()
        consume_soon(transport, "work").close()
