"""A stream is complete when its end and all numbers below it have come, in whatever order."""

from dataclasses import dataclass, field
from itertools import permutations

import pytest

from booksan.messages import Kind, Message, end_message
from booksan.state.client import Conflict, Stream, Verdict
from tests.unit.test_spec import make_spec

SENDER = "gateway/books"


def batch(seq: int, digest: str = "same") -> Message:
    return Message(make_spec(), SENDER, Kind.BATCH, seq, digest)


def end(length: int) -> Message:
    return end_message(make_spec(), SENDER, length)


@dataclass(frozen=True)
class Model:
    """The same by sets: every number with its digest, and every end that came."""

    batches: dict[int, str] = field(default_factory=dict)
    ends: frozenset[int] = frozenset()

    def after(self, message: Message) -> "Model | None":
        """None if no honest sender can have sent all of this."""
        batches, ends = dict(self.batches), self.ends
        if message.kind is Kind.END:
            ends |= {message.seq}
        elif batches.setdefault(message.seq, message.digest) != message.digest:
            return None
        if len(ends) > 1 or any(seq >= length for seq in batches for length in ends):
            return None
        return Model(batches, ends)

    @property
    def complete(self) -> bool:
        return any(set(self.batches) == set(range(length)) for length in self.ends)


def check(stream: Stream, model: Model, alphabet: list[Message], depth: int) -> int:
    """Compares stream and model after every sequence of messages; how many there were."""
    if not depth:
        return 0
    count = 0
    for message in alphabet:
        count += 1
        after = model.after(message)
        known = model.batches.get(message.seq) if message.kind is Kind.BATCH else None
        if after is None:
            with pytest.raises(Conflict, match=SENDER):
                stream.judge(message, known)
            continue
        verdict = stream.judge(message, known)
        assert verdict is (Verdict.REPEAT if after == model else Verdict.NEW)
        then = stream.with_message(message) if verdict is Verdict.NEW else stream
        assert then.complete == after.complete
        assert then.received == len(after.batches)
        assert then.highest == max(after.batches, default=-1)
        assert then.length == next(iter(after.ends), None)
        count += check(then, after, alphabet, depth - 1)
    return count


def test_every_sequence_of_messages_is_judged_as_by_sets() -> None:
    batches = [batch(0), batch(1), batch(2), batch(1, "another")]
    ends = [end(length) for length in range(4)]
    assert check(Stream(SENDER), Model(), batches + ends, 6) > 20_000


def played(messages: tuple[Message, ...]) -> list[bool]:
    """Whether the stream was complete after each message."""
    stream = Stream(SENDER)
    known: dict[int, str] = {}
    seen = []
    for message in messages:
        digest = known.get(message.seq) if message.kind is Kind.BATCH else None
        if stream.judge(message, digest) is Verdict.NEW:
            stream = stream.with_message(message)
            if message.kind is Kind.BATCH:
                known[message.seq] = message.digest
        seen.append(stream.complete)
    return seen


def test_every_order_of_a_stream_with_repeats_completes_with_its_last_new_message() -> None:
    history = (batch(0), batch(1), batch(2), end(3), batch(1), end(3))
    for order in permutations(history):
        identities = [(message.kind, message.seq) for message in order]
        last = max(identities.index(identity) for identity in set(identities))
        assert played(order) == [place >= last for place in range(len(order))]


def test_a_stream_without_batches_is_complete_at_its_end() -> None:
    assert not Stream(SENDER).complete
    assert played((end(0),)) == [True]


def test_pitfall_an_empty_batch_is_not_an_end() -> None:
    """All rows of the only batch so far were filtered out: the stream goes on."""
    assert played((batch(0), batch(1), batch(2), end(3))) == [False, False, False, True]


def test_pitfall_an_end_that_overtakes_its_data_waits_for_it() -> None:
    assert played((end(2), batch(1), batch(0))) == [False, False, True]


def test_pitfall_a_repeat_of_an_older_batch_does_not_count_twice() -> None:
    assert played((batch(0), batch(1), batch(0), end(3), batch(2))) == [False] * 4 + [True]


def test_pitfall_a_second_end_changes_nothing() -> None:
    assert played((end(1), end(1), batch(0), end(1))) == [False, False, True, True]


def test_pitfall_numbers_are_compared_as_numbers() -> None:
    """As texts, 10 would come before 9."""
    assert played((*map(batch, range(11)), end(11)))[-1]
    with pytest.raises(Conflict):
        played((batch(9), batch(10), end(10)))


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ((batch(0), batch(0, "another")), "batch 0 of gateway/books came twice, not the same"),
        ((end(2), end(3)), "ended with 2 and with 3 batches"),
        ((end(0), end(1)), "ended with 0 and with 1 batches"),
        ((end(2), batch(2)), "batch 2 of gateway/books is beyond its end at 2"),
        ((end(0), batch(0)), "batch 0 of gateway/books is beyond its end at 0"),
        ((batch(5), batch(1), end(5)), "ends with 5 batches, but number 5 has come"),
    ],
)
def test_a_stream_that_contradicts_itself_says_how(
    messages: tuple[Message, ...], reason: str
) -> None:
    with pytest.raises(Conflict, match=reason):
        played(messages)
