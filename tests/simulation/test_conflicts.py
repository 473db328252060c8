"""What contradicts itself fails the run with the reason; what is poison stops nobody else."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from booksan.errors import UsageError
from booksan.messages import Kind, Message, decode, digest_of, encode, end_message
from booksan.shards import queue_name
from booksan.spec import Spec
from booksan.stages.operator import Piece
from booksan.stages.operators import Tally
from booksan.state.client import database_path
from booksan.tickets import sign_permit, sign_ticket
from booksan.transport.base import Outgoing
from booksan.worker.loop import Worker
from tests.simulation.world import SECRET, SETTINGS, CrashAt, Killed, World
from tests.support.data import sample, shards

MakeWorld = Callable[..., World]

DATA = sample(5)
OTHER = sample(6)


def started(make_world: MakeWorld) -> tuple[World, Spec]:
    """A world whose client has sent all its books and may send reviews."""
    world = make_world(5)
    spec = DATA.spec("one", shards(1))
    world.add_client(spec, DATA.batches)
    for _ in range(10_000):
        if world.clients["one"].source == 1:
            break
        world._step()
    world.drain()
    return world, spec


def put(world: World, spec: Spec, source: str, number: int, data: bytes) -> None:
    ticket, permit = sign_ticket(SECRET, spec), sign_permit(SECRET, spec, source)
    world.put(ticket, source, number, data, permit)


def end(world: World, spec: Spec, source: str, batches: int) -> None:
    ticket, permit = sign_ticket(SECRET, spec), sign_permit(SECRET, spec, source)
    world.end(ticket, source, batches, permit)


def test_the_same_batch_number_with_other_bytes_fails_the_run(make_world: MakeWorld) -> None:
    world, spec = started(make_world)
    put(world, spec, "books", 0, OTHER.batches["books"][0])
    world.drain()
    assert "batch 0 of gateway/books came twice, not the same" in str(world.failure("one"))


def test_an_end_with_another_number_fails_the_run(make_world: MakeWorld) -> None:
    world, spec = started(make_world)
    end(world, spec, "books", 99)
    world.drain()
    assert "and with 99 batches" in str(world.failure("one"))


def test_a_batch_beyond_the_end_fails_the_run(make_world: MakeWorld) -> None:
    world, spec = started(make_world)
    put(world, spec, "books", 99, DATA.batches["books"][0])
    world.drain()
    assert "batch 99 of gateway/books is beyond its end" in str(world.failure("one"))


def test_an_end_below_a_batch_that_came_fails_the_run(make_world: MakeWorld) -> None:
    world, spec = started(make_world)
    put(world, spec, "reviews", 3, DATA.batches["reviews"][3])
    world.drain()
    end(world, spec, "reviews", 2)
    world.drain()
    assert "ends with 2 batches, but number 3 has come" in str(world.failure("one"))


def test_reviews_are_not_taken_without_a_permit(make_world: MakeWorld) -> None:
    world = make_world(5)
    spec = DATA.spec("one", shards(1))
    world.add_client(spec, DATA.batches)
    ticket = sign_ticket(SECRET, spec)
    for permit in (None, "", "0" * 64, sign_permit(SECRET, spec, "books")):
        with pytest.raises(UsageError, match="not taken yet"):
            world.put(ticket, "reviews", 0, DATA.batches["reviews"][0], permit)


def test_a_permit_comes_only_when_every_join_has_every_book(make_world: MakeWorld) -> None:
    world = make_world(5)
    spec = DATA.spec("one", shards(3))
    world.add_client(spec, DATA.batches)
    for number, data in enumerate(DATA.batches["books"]):
        put(world, spec, "books", number, data)
    end(world, spec, "books", len(DATA.batches["books"]))
    late = {"q3-join.1": world.transport.queues.pop("q3-join.1")}
    world.drain()
    status = world.views["one"].status()
    assert status is not None
    assert "reviews" not in status.permits
    world.transport.queues.update(late)
    world.drain()
    status = world.views["one"].status()
    assert status is not None
    assert "reviews" in status.permits


def test_reviews_that_overtake_books_fail_the_run_instead_of_being_lost(
    make_world: MakeWorld,
) -> None:
    world = make_world(5)
    spec = DATA.spec("one", shards(1))
    world.add_client(spec, DATA.batches)
    put(world, spec, "reviews", 0, DATA.batches["reviews"][0])
    world.drain()
    assert "before books was complete" in str(world.failure("one"))


def test_the_same_id_with_another_spec_is_refused_and_harms_nobody(make_world: MakeWorld) -> None:
    world, spec = started(make_world)
    other = replace(spec, params={**spec.params, "q4.top": 3})
    world.gateway.create(other)
    world.drain()
    status = world.views["one"].status()
    assert status is not None
    assert status.spec == spec
    world.run()
    assert world.answers("one") == DATA.answers


def test_data_under_another_spec_fails_the_run(make_world: MakeWorld) -> None:
    world, spec = started(make_world)
    other = replace(spec, params={**spec.params, "q4.top": 3})
    put(world, other, "reviews", 0, DATA.batches["reviews"][0])
    world.drain()
    assert "different specs" in str(world.failure("one"))


def test_an_empty_batch_is_not_an_end(make_world: MakeWorld) -> None:
    world = make_world(5)
    spec = DATA.spec("one", shards(1))
    world.add_client(spec, DATA.batches)
    put(world, spec, "books", 0, b"\n")
    put(world, spec, "books", 1, b"")
    world.drain()
    status = world.views["one"].status()
    assert status is not None
    assert status.sources["books"].batches == 2
    assert status.permits.keys() == {"books"}


def test_a_client_that_vanishes_never_looks_like_an_end(make_world: MakeWorld) -> None:
    world, _ = started(make_world)
    world.drain()
    status = world.views["one"].status()
    assert status is not None
    assert not status.done
    assert "q3-join" not in status.complete


# -- poison --------------------------------------------------------------------------------------


def letters(world: World) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in world.root.glob("letters/*/*.json")]


def test_a_message_that_raises_becomes_a_letter_and_others_go_on(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(5)
    world.add_client(DATA.spec("bad", shards(1)), DATA.batches)
    world.add_client(OTHER.spec("good", shards(1)), OTHER.batches)
    prepare = Tally.prepare

    def raise_for_bad(self: Tally, message: Message) -> object:
        if message.client == "bad" and message.seq == 1 and self.place.stage == "q3-join":
            raise ValueError("cannot digest this")
        return prepare(self, message)

    monkeypatch.setattr(Tally, "prepare", raise_for_bad)
    world.run()
    world.drain()
    assert "cannot digest this" in str(world.failure("bad"))
    assert world.failure("good") is None
    assert world.answers("good") == OTHER.answers
    assert [letter["stage"] for letter in letters(world)] == ["q3-join"]


def test_bytes_that_are_no_message_become_a_letter_and_others_go_on(make_world: MakeWorld) -> None:
    world = make_world(5)
    world.add_client(DATA.spec("one", shards(1)), DATA.batches)
    for queue in ("q3-join.0", "results.0", "q1-filter.0"):
        world.transport.publish([Outgoing(queue, b"not a message")])
    world.run()
    world.drain()
    assert world.answers("one") == DATA.answers
    assert len(letters(world)) == 3


def test_a_message_that_kills_its_worker_ten_times_in_a_row_becomes_a_letter(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(5)
    world.add_client(DATA.spec("bad", shards(1)), DATA.batches)
    world.add_client(OTHER.spec("good", shards(1)), OTHER.batches)
    prepare = Tally.prepare

    def die_for_bad(self: Tally, message: Message) -> object:
        if message.client == "bad" and message.seq == 1 and self.place.stage == "q3-join":
            raise Killed
        return prepare(self, message)

    monkeypatch.setattr(Tally, "prepare", die_for_bad)
    world.run()
    world.drain()
    assert "died 10 times in a row" in str(world.failure("bad"))
    assert world.answers("good") == OTHER.answers
    # The deadly message is not the first of its group each time, so a few deaths may not count.
    assert SETTINGS.max_deaths < world.deaths <= 3 * SETTINGS.max_deaths


def test_final_output_that_raises_after_a_kill_fails_its_client_and_no_other(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    final = Tally.final

    def raise_for_bad(self: Tally, cursor: str | None) -> Piece:
        if self.place.spec.client == "bad" and self.place.stage == "q2-decades":
            raise ValueError("poison in the end")
        return final(self, cursor)

    monkeypatch.setattr(Tally, "final", raise_for_bad)
    # Killed right after every commit: the final output is due in the next life, without a message.
    world = make_world(5, [CrashAt("q2-decades.0", "committed", n) for n in range(1, 40)])
    world.add_client(DATA.spec("bad", shards(1)), DATA.batches)
    world.add_client(OTHER.spec("good", shards(1)), OTHER.batches)
    world.run()
    world.drain()
    assert "its output cannot be made: ValueError: poison in the end" in str(world.failure("bad"))
    assert world.answers("good") == OTHER.answers


def test_a_database_that_cannot_be_read_fails_its_client_and_no_other(
    make_world: MakeWorld,
) -> None:
    world, spec = started(make_world)
    worker = world._life("q3-join.0")
    assert worker is not None
    world._bury("q3-join.0", worker)
    broken = database_path(world.root, "one", "q3-join", 0)
    for path in broken.parent.glob("q3-join-0.db*"):
        path.unlink()
    broken.write_bytes(b"not a database at all" * 1000)
    worker = world._life("q3-join.0")
    assert worker is not None
    assert worker.store.is_failed("one")
    assert worker.store.failed_until(spec.expires) != []


def work(worker: Worker) -> None:
    """Until there is nothing left to do."""
    while worker.step(0):
        pass


def test_a_full_disk_never_counts_against_a_message(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, spec = started(make_world)
    worker = world._life("q3-join.0")
    assert isinstance(worker, Worker)
    publish = world.transport.publish
    full = OSError(28, "No space left on device")

    def refuse(messages: object) -> None:
        raise full

    body = encode(end_message(spec, "gateway/reviews", 0))
    publish([Outgoing("q3-join.0", body)])
    monkeypatch.setattr(world.transport, "publish", refuse)
    for _ in range(SETTINGS.max_attempts + 2):
        with pytest.raises(OSError, match="No space"):
            work(worker)
        worker.abandon()
        worker = Worker(worker.shard)
        worker.resume(suspicious=False)
    monkeypatch.setattr(world.transport, "publish", publish)
    work(worker)
    assert letters(world) == []
    assert world.failure("one") is None
    assert worker.store.db.execute("SELECT count(*) FROM attempts").fetchone() == (0,)


# -- leaving -------------------------------------------------------------------------------------


def test_a_cancelled_run_is_deleted_everywhere_and_stays_deleted(make_world: MakeWorld) -> None:
    world, spec = started(make_world)
    world.release("one", "cancelled")
    world.drain()
    put(world, spec, "reviews", 0, DATA.batches["reviews"][0])
    world.drain()
    assert list((world.root / "clients").iterdir()) == []
    worker = world._life("results.0")
    assert worker is not None
    assert worker.store.how_gone("one") == "cancelled"


def test_releasing_twice_is_fine(make_world: MakeWorld) -> None:
    world, spec = started(make_world)
    world.release("one")
    world.drain()
    world.gateway.release(sign_ticket(SECRET, spec), "done")
    world.drain()
    assert list((world.root / "clients").iterdir()) == []


def test_messages_past_the_hard_expiry_are_dropped(make_world: MakeWorld) -> None:
    world = make_world(5)
    spec = replace(DATA.spec("old", shards(1)), expires=1)
    body = digest_of("x")
    message = Message(spec, "gateway/books", Kind.END, 0, body)
    world.workers = {queue_name(stage, 0): None for stage in spec.shards}
    world.transport.publish([Outgoing(name, encode(message)) for name in world.workers])
    assert decode(encode(message)).spec.expires == 1
    world.drain()
    assert not (world.root / "clients").exists()


def test_an_expired_client_is_deleted_without_being_asked(make_world: MakeWorld) -> None:
    world, spec = started(make_world)
    world.sleep(spec.expires + 1.0 - world.now)
    world.tick()
    world.views["one"].close()
    assert list((world.root / "clients").iterdir()) == []


def test_a_failed_client_is_deleted_when_it_expires(make_world: MakeWorld) -> None:
    world, spec = started(make_world)
    end(world, spec, "books", 99)
    world.drain()
    assert world.failure("one") is not None
    world.views["one"].close()
    world.sleep(spec.expires + 1.0 - world.now)
    world.tick()
    assert list((world.root / "clients").iterdir()) == []
