"""A gateway whose broker goes away says so at once, and goes on when it is back."""

import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import httpx
import pika
import pytest

from booksan.broker import Broker
from booksan.shards import queue_name
from booksan.spec import HOME
from tests.support.broker import broker as broker
from tests.support.broker import delete_queues, new_prefix, purge_queues
from tests.support.data import Sample, sample
from tests.support.gateway_host import SHARDS, HttpClient, error_of, running, wait_for

#: Seconds in which a client must be told, on a busy machine.
TOLD_SECONDS = 30.0
#: Seconds in which a run must get over what its queues have lost.
HEALED_SECONDS = 300.0
#: How queues lose what is in them.
LOSSES: dict[str, Callable[[Broker, Iterable[str]], None]] = {
    "purged": purge_queues,
    "deleted": delete_queues,
}


def test_a_broker_that_is_away_means_503_until_it_is_back(
    broker: Broker,
    tmp_path: Path,
) -> None:
    data = sample(5, books=60, reviews=80, dirty=True)
    prefix = new_prefix()
    env = {"BOOKSAN_QUEUES": f"{broker.url}#{prefix}"}
    with running(tmp_path, env=env) as alpha, alpha.client("broker") as client:
        assert client.create(data).status_code == 201
        client.upload(data, "books")
        client.wait(lambda status: "reviews" in status["permits"])
        broker.stop()
        try:
            calls: list[Callable[[], httpx.Response]] = [
                lambda: client.put("reviews", 0, data.batches["reviews"][0]),
                lambda: client.end("reviews", 1),
                lambda: client.http.delete(client.path),
            ]
            for call in calls:
                begun = time.monotonic()
                answer = call()
                assert error_of(answer) == (503, "queues_away")
                assert "Retry-After" in answer.headers
                assert time.monotonic() - begun < TOLD_SECONDS
            assert client.status()["state"] == "uploading"
            assert wait_for(lambda: client.http.get("/v1/health").status_code == 503)
        finally:
            broker.start()
        wait_for(lambda: client.http.get("/v1/health").status_code == 200)
        client.upload(data, "reviews")
        assert client.wait(lambda status: status["state"] == "done")["failed"] is None
        assert client.answers() == data.answers
        assert client.http.post(f"{client.path}/acknowledge").json() == {"how": "done"}
        assert broker.url.partition("@")[0].rpartition(":")[2] not in alpha.log()
    names = [queue_name(stage, n) for stage, count in SHARDS.items() for n in range(count)]
    delete_queues(broker, [f"{prefix}.{name}" for name in names])


def heal(client: HttpClient, data: Sample) -> bool:
    """Sends what the server says that it lacks; whether the run has ended."""
    status = client.get(stages="true").json()
    for source, lack in (status.get("resend") or {}).items():
        for first, last in lack["batches"]:
            for number in range(first, last + 1):
                client.put(source, number, data.batches[source][number])
        if lack["end"]:
            client.end(source, len(data.batches[source]))
    return status["state"] in ("done", "failed")


def test_queues_that_are_deleted_under_a_run_are_made_good(broker: Broker, tmp_path: Path) -> None:
    """All of them, with workers that read them: after each source, and before the first answer."""
    data = sample(6, books=60, reviews=80, dirty=True)
    prefix = new_prefix()
    env = {
        "BOOKSAN_QUEUES": f"{broker.url}#{prefix}",
        "BOOKSAN_STALLED_AFTER": "1",
        "BOOKSAN_LOST_AFTER": "2",
    }
    names = [queue_name(stage, n) for stage, count in SHARDS.items() for n in range(count)]
    queues = [f"{prefix}.{name}" for name in names]
    late = [stage for stage in SHARDS if stage not in ("q3-join", "q5-percentile")]
    with (
        running(tmp_path, env=env, stages=late) as host,
        host.client("deleted") as client,
    ):
        assert client.create(data).status_code == 201
        client.wait(lambda status: "books" in status["permits"])
        for number, batch in enumerate(data.batches["books"]):
            assert client.put("books", number, batch).status_code == 200
        assert client.end("books", len(data.batches["books"])).status_code == 200
        assert waiting(broker, f"{prefix}.q3-join.0")
        delete_queues(broker, queues)
    with running(tmp_path, env=env) as host, host.client("deleted") as client:
        wait_for(lambda: heal(client, data) or "reviews" in client.status()["permits"])
        for number, batch in enumerate(data.batches["reviews"]):
            # The first to find a queue gone makes it again, and asks for another try.
            wait_for(partial(taken, client, number, batch))
            delete_queues(broker, queues)
        count = len(data.batches["reviews"])
        wait_for(lambda: client.end("reviews", count).status_code == 200)
        delete_queues(broker, queues)
        wait_for(lambda: heal(client, data))
        status = client.status()
        assert (status["state"], status["failed"]) == ("done", None)
        assert client.answers() == data.answers
    delete_queues(broker, queues)


@pytest.mark.parametrize("lose", LOSSES)
def test_batches_that_the_queue_of_a_join_lost_are_sent_again(
    broker: Broker, tmp_path: Path, lose: str, record_property: Callable[[str, object], None]
) -> None:
    """With workers that are not there yet, so that everything waits in the queues and is lost."""
    data = sample(6, books=60, reviews=80, dirty=True)
    prefix = new_prefix()
    env = impatient(broker, prefix)
    joins = queues_of(prefix, "q3-join")
    first = [stage for stage in SHARDS if stage != "q3-join"]
    with running(tmp_path, env=env, stages=first) as host, host.client("lossy") as client:
        assert client.create(data).status_code == 201
        client.upload(data, "books")
        sent = len(data.batches["books"]) + 1
    # Questions of the home are among them.
    assert all(waiting(broker, queue) >= sent for queue in joins)
    LOSSES[lose](broker, joins)
    begun = time.monotonic()
    with running(tmp_path, env=env) as host, host.client("lossy") as client:
        lost = wait_for(lambda: client.get(stages="true").json().get("resend"))
        assert lost == {"books": {"batches": [[0, sent - 2]], "end": True}}
        heal(client, data)
        client.upload(data, "reviews")
        healed_in_time(client, data, begun)
        record_property(f"healed after a join's queue was {lose}, s", since(begun))
    delete_queues(broker, queues_of(prefix, *SHARDS))


@pytest.mark.parametrize("lose", LOSSES)
def test_final_output_that_the_queue_of_a_home_lost_is_sent_again(
    broker: Broker, tmp_path: Path, lose: str, record_property: Callable[[str, object], None]
) -> None:
    """Answers by the stages themselves; what gateways had counted for the home, by the client."""
    data = sample(6, books=60, reviews=80, dirty=True)
    prefix = new_prefix()
    env = impatient(broker, prefix)
    homes = queues_of(prefix, HOME)
    with running(tmp_path, env=env) as host, host.client("lossy") as client:
        assert client.create(data).status_code == 201
        client.upload(data, "books")
        client.wait(lambda status: "reviews" in status["permits"])
    homeless = [stage for stage in SHARDS if stage != HOME]
    with running(tmp_path, env=env, stages=homeless) as host, host.client("lossy") as client:
        client.upload(data, "reviews")
        wait_for(partial(all_done, client, ("q3-join", "q4-top", "q5-percentile")))
        answers = client.status()["answers"]
        assert not any(answers[query]["complete"] for query in ("q3", "q4", "q5"))
    # The gateway's numbers of rows are there too.
    assert sum(waiting(broker, queue) for queue in homes) > len(data.batches["reviews"]) + 1
    LOSSES[lose](broker, homes)
    begun = time.monotonic()
    with running(tmp_path, env=env) as host, host.client("lossy") as client:
        healed_in_time(client, data, begun)
        record_property(f"healed after the home's queue was {lose}, s", since(begun))
    delete_queues(broker, queues_of(prefix, *SHARDS))


def impatient(broker: Broker, prefix: str) -> dict[str, str]:
    """Losses are noticed after seconds instead of a minute."""
    return {
        "BOOKSAN_QUEUES": f"{broker.url}#{prefix}",
        "BOOKSAN_STALLED_AFTER": "1",
        "BOOKSAN_LOST_AFTER": "2",
    }


def queues_of(prefix: str, *stages: str) -> list[str]:
    names = [queue_name(stage, n) for stage in stages for n in range(SHARDS[stage])]
    return [f"{prefix}.{name}" for name in names]


def all_done(client: HttpClient, stages: Iterable[str]) -> bool:
    found = client.get(stages="true").json()["stages"]
    return all(found[stage]["done"] for stage in stages)


def healed_in_time(client: HttpClient, data: Sample, begun: float) -> None:
    wait_for(lambda: heal(client, data))
    status = client.status()
    assert (status["state"], status["failed"]) == ("done", None)
    assert client.answers() == data.answers
    assert since(begun) < HEALED_SECONDS


def since(begun: float) -> float:
    return round(time.monotonic() - begun, 1)


def taken(client: HttpClient, number: int, batch: bytes) -> bool:
    return client.put("reviews", number, batch).status_code == 200


def waiting(broker: Broker, queue: str) -> int:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    try:
        found = connection.channel().queue_declare(queue, passive=True)
        return int(found.method.message_count)
    finally:
        connection.close()
