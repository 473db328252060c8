"""How far the stages are with a client, over all hosts, where a run stands still, and why."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from booksan.datasets import dataset_named
from booksan.gateway.homes import Homes, Peers
from booksan.home import HomeStatus
from booksan.shards import queue_name
from booksan.spec import HOME, Spec
from booksan.stages.graph import Dataset
from booksan.stages.operator import Stateful
from booksan.state.client import ENDED
from booksan.state.readers import StreamProgress, failures, missing_ranges, progress
from booksan_common.shapes import Lack, StageStatus, Stall, Stream

#: Seconds without a change after which an unfinished run is called stalled.
STALLED_SECONDS = 120
#: Streams that are named when it is, and missing numbers of each.
STALLED_STREAMS = 20
STALLED_NUMBERS = 10
#: Seconds without a message on a stream after which what it lacks is taken for lost, if nothing is
#: waiting in its queue; and if something is, of whichever client.
LOST_SECONDS = 60
LOST_AFTER = "BOOKSAN_LOST_AFTER"
SURELY_LOST_SECONDS = 180


class Gaps(NamedTuple):
    """What a stream that has not moved for long lacks."""

    #: (first, last) of each run of missing numbers.
    ranges: list[tuple[int, int]]
    #: The number from which on nothing is known, because the end has not come.
    top: int
    #: Seconds since it moved.
    seconds: int

    def numbers(self) -> tuple[int, ...]:
        """The first of them."""
        each = (n for first, last in self.ranges for n in range(first, last + 1))
        return tuple(islice(each, STALLED_NUMBERS))


@dataclass(frozen=True)
class Progress:
    streams: tuple[StreamProgress, ...]
    failures: tuple[str, ...]
    #: By (stage, shard, sender), of streams that lack something and have not moved for a while.
    gaps: dict[tuple[str, int, str], Gaps] = field(default_factory=dict)
    missing_hosts: tuple[str, ...] = ()


def local_progress(root: Path, client: str, now: float) -> dict[str, Any]:
    """Of this host, as it travels between gateways."""
    return {
        "streams": [
            asdict(stream) | {"gaps": _gaps(root, stream, now)} for stream in progress(root, client)
        ],
        "failures": failures(root, client),
    }


def _gaps(root: Path, stream: StreamProgress, now: float) -> Gaps | None:
    seconds = int(now - stream.moved)
    if stream.complete or seconds < float(os.environ.get(LOST_AFTER, LOST_SECONDS)):
        return None
    return Gaps(*missing_ranges(root, stream), seconds)


async def whole_progress(homes: Homes, peers: Peers, client: str) -> Progress:
    answers = [await homes.run(local_progress, homes.root, client, homes.clock.now())]
    away = []
    async for host, answer in peers.ask_all(f"/internal/v1/progress/{client}"):
        if answer is None:
            away.append(host)
        else:
            answers.append(answer)
    return united(answers, away)


def united(answers: Iterable[Mapping[str, Any]], away: Sequence[str] = ()) -> Progress:
    """What all hosts said of their shards."""
    streams, gaps, reasons = [], {}, []
    for answer in answers:
        for found in answer["streams"]:
            lacks = found.pop("gaps")
            stream = StreamProgress(**found)
            streams.append(stream)
            if lacks is not None:
                gaps[stream.stage, stream.shard, stream.sender] = Gaps(*lacks)
        reasons += answer["failures"]
    return Progress(tuple(streams), tuple(reasons), gaps, tuple(away))


def stages_of(spec: Spec, streams: Sequence[StreamProgress]) -> dict[str, StageStatus]:
    dataset = dataset_named(spec.dataset)
    return {stage: _stage(dataset, spec, stage, streams) for stage in dataset.stage}


def _stage(
    dataset: Dataset, spec: Spec, stage: str, streams: Sequence[StreamProgress]
) -> StageStatus:
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
    return StageStatus(
        shards=len(shards),
        batches=sum(stream.batches for stream in own),
        of_batches=sum(length or 0 for length in lengths) if known else None,
        rows=sum(stream.rows for stream in own),
        bytes=sum(stream.bytes for stream in own),
        done=done,
        inputs=dataset.stage[stage].inputs,
    )


def _outputs(
    dataset: Dataset, stage: str, streams: Iterable[StreamProgress]
) -> Iterable[StreamProgress]:
    receivers = dataset.receivers[stage]
    if not receivers:
        return ()
    first = receivers[0].name
    return (s for s in streams if s.stage == first and s.sender.partition("/")[0] == stage)


def stalled_of(found: Progress, *, over: bool, now: float) -> Stall | None:
    """Where a run that has not moved for long stands still."""
    if over or not found.streams:
        return None
    seconds = int(now - max(stream.moved for stream in found.streams))
    if seconds < STALLED_SECONDS:
        return None
    waiting = [stream for stream in found.streams if not stream.complete]
    where = sorted(waiting, key=_by_cause)[:STALLED_STREAMS]
    return Stall(seconds, tuple(_told(stream, _gaps_of(found, stream)) for stream in where))


def _told(stream: StreamProgress, gaps: Gaps | None) -> Stream:
    return Stream(
        stream.stage,
        stream.shard,
        stream.sender,
        stream.batches,
        stream.of_batches,
        gaps.numbers() if gaps else (),
    )


def _gaps_of(found: Progress, stream: StreamProgress) -> Gaps | None:
    return found.gaps.get((stream.stage, stream.shard, stream.sender))


def resend_of(
    found: Progress, home: HomeStatus, *, is_waiting: Callable[[str], bool]
) -> dict[str, Lack]:
    """What the client should send again, by source: nobody else has it.

    `is_waiting`: holds this queue any message? Then what is missing may be among them.
    """
    dataset = dataset_named(home.spec.dataset)
    lost: dict[str, set[tuple[int, int]]] = {}
    ends: set[str] = set()
    for stream in found.streams:
        gaps, source = _gaps_of(found, stream), _source_of(dataset, stream.sender)
        # Before its permit nothing of a source has been sent.
        if gaps is None or source not in home.permits:
            continue
        if not _is_lost(dataset, stream, gaps, is_waiting):
            continue
        ranges = lost.setdefault(source, set())
        ranges.update((first, last) for first, last in gaps.ranges)
        if stream.of_batches is None:
            ends.add(source)
            length = home.sources[source].of_batches or 0
            if gaps.top < length:
                ranges.add((gaps.top, length - 1))
    return {source: Lack(_merged(ranges), source in ends) for source, ranges in lost.items()}


def _is_lost(
    dataset: Dataset, stream: StreamProgress, gaps: Gaps, is_waiting: Callable[[str], bool]
) -> bool:
    """The queue of the stage that has the gap, and of one without state that it comes through."""
    if gaps.seconds >= SURELY_LOST_SECONDS:
        return True
    queues = [queue_name(stream.stage, stream.shard)]
    stage, _, shard = stream.sender.partition("/")
    if stage in dataset.stage:
        queues.append(queue_name(stage, int(shard)))
    return not any(is_waiting(queue) for queue in queues)


def _source_of(dataset: Dataset, sender: str) -> str | None:
    """The source whose batches these are; None for what a stage with state has made of them."""
    stage, _, name = sender.partition("/")
    while stage in dataset.stage:
        if isinstance(dataset.stage[stage].operator, Stateful):
            return None
        # What has no state reads one input, and keeps its numbers.
        (stage,) = dataset.stage[stage].inputs
        name = stage
    return name


def _merged(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The same numbers in as few ranges as there can be."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            first, before = merged.pop()
            last = max(before, last)
        merged.append((first, last))
    return tuple(merged)


def _by_cause(stream: StreamProgress) -> tuple[bool, bool, str, int, str]:
    """Sources before stages: what a stage lacks is mostly what it could not make yet."""
    from_client = stream.sender.startswith("gateway/")
    return (not from_client, stream.stage != HOME, stream.stage, stream.shard, stream.sender)
