"""A gateway whose broker goes away says so at once, and goes on when it is back."""

import time
from collections.abc import Callable
from pathlib import Path

import httpx

from booksan.broker import Broker
from booksan.stages.graph import queue_name
from tests.broker import broker as broker
from tests.broker import delete_queues, new_prefix
from tests.integration.gateway_host import SHARDS, error_of, running, wait_for
from tests.simulation.data import sample

#: Seconds in which a client must be told, on a busy machine.
TOLD_SECONDS = 30.0


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
