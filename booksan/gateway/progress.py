"""How far the stages are with a client, over all hosts, and where a run stands still."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from booksan.gateway.homes import Homes
from booksan.gateway.neighbours import Neighbours
from booksan.inspection import StreamProgress, failures, missing_numbers, progress
from booksan.spec import HOME, Spec
from booksan.stages.datasets import dataset_named
from booksan.stages.graph import Dataset
from booksan.state.client import ENDED

#: Seconds without a change after which an unfinished run is called stalled.
STALLED_SECONDS = 120
#: Streams that are named when it is.
STALLED_STREAMS = 20


@dataclass(frozen=True)
class Progress:
    streams: tuple[StreamProgress, ...]
    #: Missing numbers of streams that have not moved for long, by (stage, shard, sender).
    missing: dict[tuple[str, int, str], list[int]]
    failures: tuple[str, ...]
    missing_hosts: tuple[str, ...] = ()


def local_progress(root: Path, client: str) -> dict[str, Any]:
    """Of this host, as it travels between gateways."""
    now = time.time()
    return {
        "streams": [
            asdict(stream) | {"missing": _missing(root, stream, now)}
            for stream in progress(root, client)
        ],
        "failures": failures(root, client),
    }


def _missing(root: Path, stream: StreamProgress, now: float) -> list[int]:
    if stream.complete or now - stream.moved < STALLED_SECONDS:
        return []
    return missing_numbers(root, stream)


async def whole_progress(homes: Homes, neighbours: Neighbours, client: str) -> Progress:
    answers = [await homes.run(local_progress, homes.root, client)]
    away = []
    async for host, answer in neighbours.ask_all(f"/internal/v1/progress/{client}"):
        if answer is None:
            away.append(host)
        else:
            answers.append(answer)
    streams, missing, reasons = [], {}, []
    for answer in answers:
        for found in answer["streams"]:
            lacks = found.pop("missing")
            stream = StreamProgress(**found)
            streams.append(stream)
            missing[stream.stage, stream.shard, stream.sender] = lacks
        reasons += answer["failures"]
    return Progress(tuple(streams), missing, tuple(reasons), tuple(away))


def stages_of(spec: Spec, streams: Sequence[StreamProgress]) -> dict[str, Any]:
    dataset = dataset_named(spec.dataset)
    return {stage: _stage(dataset, spec, stage, streams) for stage in dataset.stage}


def _stage(
    dataset: Dataset, spec: Spec, stage: str, streams: Sequence[StreamProgress]
) -> dict[str, Any]:
    shards = dataset.shards_of(stage, spec)
    own = [stream for stream in streams if stream.stage == stage]
    expected = len(shards) * sum(
        len(dataset.senders(name, spec)) for name in dataset.stage[stage].inputs
    )
    done = len({s.shard for s in own}) == len(shards) and all(s.phase == ENDED for s in own)
    if not own:
        # A stage without a database: what came out of it tells how much went in.
        own = list(_outputs(dataset, stage, streams))
        expected = len(shards)
        done = len(own) == expected and all(stream.complete for stream in own)
    lengths = [stream.of_batches for stream in own]
    known = len(own) == expected and None not in lengths
    return {
        "shards": len(shards),
        "batches": sum(stream.batches for stream in own),
        "of_batches": sum(length or 0 for length in lengths) if known else None,
        "rows": sum(stream.rows for stream in own),
        "bytes": sum(stream.bytes for stream in own),
        "done": done,
    }


def _outputs(
    dataset: Dataset, stage: str, streams: Iterable[StreamProgress]
) -> Iterable[StreamProgress]:
    receivers = dataset.receivers[stage]
    if not receivers:
        return ()
    first = receivers[0].name
    return (s for s in streams if s.stage == first and s.sender.partition("/")[0] == stage)


def stalled_of(found: Progress, *, over: bool, now: float) -> dict[str, Any] | None:
    """Where a run that has not moved for long stands still."""
    if over or not found.streams:
        return None
    seconds = int(now - max(stream.moved for stream in found.streams))
    if seconds < STALLED_SECONDS:
        return None
    waiting = [stream for stream in found.streams if not stream.complete]
    return {
        "seconds": seconds,
        "where": [
            {
                "stage": stream.stage,
                "shard": stream.shard,
                "sender": stream.sender,
                "batches": stream.batches,
                "of_batches": stream.of_batches,
                "missing": found.missing[stream.stage, stream.shard, stream.sender],
            }
            for stream in sorted(waiting, key=_by_cause)[:STALLED_STREAMS]
        ],
    }


def _by_cause(stream: StreamProgress) -> tuple[bool, bool, str, int, str]:
    """Sources before stages: what a stage lacks is mostly what it could not make yet."""
    from_client = stream.sender.startswith("gateway/")
    return (not from_client, stream.stage != HOME, stream.stage, stream.shard, stream.sender)
