"""A slow but healthy run can be followed by its debug lines; without them a log stays quiet."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.data import Sample, sample
from tests.support.gateway_host import SHARDS, running

STEPS = {"prepare_ms", "transaction_ms", "publish_ms", "acknowledge_ms"}
ROOM = {"room_ms", "parse_ms", "route_ms", "publish_ms"}


@pytest.fixture(scope="module")
def books() -> Sample:
    return sample(5, books=60, reviews=80)


def lines(root: Path) -> list[dict[str, Any]]:
    texts = [path.read_text() for path in sorted((root / "logs").glob("*.log"))]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def test_a_run_is_followed_from_its_first_batch_to_its_answers(
    tmp_path: Path, books: Sample
) -> None:
    with (
        running(tmp_path, env={"BOOKSAN_LOG_LEVEL": "debug"}) as host,
        host.client("one") as client,
    ):
        assert client.run(books)["state"] == "done"
        answers = client.answers()
    assert answers == books.answers
    told = [line for line in lines(tmp_path) if line.get("level") == "debug"]

    def of(event: str, worker: str = "") -> list[dict[str, Any]]:
        return [e for e in told if e["event"] == event and worker in (e["worker"], "")]

    for source, batches in books.batches.items():
        found = {e["batch"]: e for e in of("batch", "gateway.0") if e["source"] == source}
        assert [found[n]["bytes"] for n in sorted(found)] == [len(each) for each in batches]
        assert all(e.keys() >= ROOM and e["client"] == "one" for e in found.values())
    for stage, number in SHARDS.items():
        for shard in range(number):
            steps = of("step", f"{stage}.{shard}")
            assert steps
            assert sum(e["messages"] for e in steps) == sum(e["of"]["one"] for e in steps)
            taken = {key for e in steps for key in e if key.endswith("_ms")}
            # Who keeps nothing commits nothing, and who counts sends all in pieces at the end.
            needed = "publish_ms" if stage == "q1-filter" else "transaction_ms"
            assert {"prepare_ms", "acknowledge_ms", needed} <= taken <= STEPS
    joins = [e.keys() for shard in range(SHARDS["q3-join"]) for e in of("step", f"q3-join.{shard}")]
    assert any(keys >= STEPS for keys in joins)
    assert all(
        e.keys() >= {"client", "transaction_ms", "publish_ms"} for e in of("piece", "q4-top.0")
    )
    assert {e["source"] for e in of("permit", "results.0")} == set(books.batches)
    assert {e["input"] for e in of("complete", "results.0")} >= set(books.batches)
    rows = [len(list(csv.reader(io.StringIO(text.decode())))) - 1 for text in answers.values()]
    assert sum(e["rows"] for e in of("answer", "results.0")) == sum(rows)


def test_a_quiet_host_says_nothing(tmp_path: Path, books: Sample) -> None:
    with running(tmp_path) as host, host.client("one") as client:
        assert client.run(books)["state"] == "done"
    assert not [line for line in lines(tmp_path) if line.get("level")]
