"""From rows for a stage to messages for its shards."""

from collections.abc import Iterator, Mapping

import polars as pl

from booksan.messages import (
    MAX_FRAME,
    MAX_MESSAGE,
    Kind,
    Message,
    digest_of,
    encode,
    to_body,
    unpacked_size,
)
from booksan.shards import queue_name, shard_of
from booksan.spec import HOME, Spec
from booksan.stages.dataset_errors import DataSetError
from booksan.stages.graph import Dataset, Keyed
from booksan.transport.base import Outgoing

#: Rows of a message are cut in two when its body passes this, to leave room for the header.
MAX_BODY = MAX_MESSAGE - 256 * 1024


def partition(
    dataset: Dataset, spec: Spec, stage: str, keyed: Keyed
) -> Iterator[tuple[int, pl.DataFrame]]:
    """One frame, maybe empty, for every shard of the stage that works for this client."""
    shards = dataset.shards_of(stage, spec)
    if len(shards) == 1:
        yield shards[0], keyed.frame
        return
    if keyed.every:
        yield from ((shard, keyed.frame) for shard in shards)
        return
    assert keyed.key is not None, f"rows for {stage} need a key"
    # crc32 row by row, because the shard of a key may never depend on a library's version.
    keys = keyed.frame.get_column(keyed.key).to_list()
    count = len(shards)
    chosen = pl.Series([shard_of(key, count) for key in keys], dtype=pl.UInt32)
    for shard in shards:
        yield shard, keyed.frame.filter(chosen == shard)


def numbered_messages(
    dataset: Dataset, spec: Spec, sender: str, seq: int, digest: str, output: Mapping[str, Keyed]
) -> list[Outgoing]:
    """One message with the same number to every receiving shard, an empty one where no row is."""
    _check_readers(dataset, sender, output)
    return [
        Outgoing(
            queue_name(stage, shard),
            encode(
                Message(
                    spec, sender, Kind.BATCH, seq, digest, {"rows": frame.height}, to_body(frame)
                )
            ),
        )
        for stage, keyed in output.items()
        for shard, frame in partition(dataset, spec, stage, keyed)
    ]


def _check_readers(dataset: Dataset, sender: str, output: Mapping[str, Keyed]) -> None:
    """Who is forgotten would wait for this number for ever."""
    first, _, source = sender.partition("/")
    name, home = (source, {HOME}) if first == "gateway" else (first, set[str]())
    readers = {stage.name for stage in dataset.receivers[name]} - home
    if set(output) != readers:
        raise DataSetError(
            f"{name} gave rows to {sorted(output)}, but is read by {sorted(readers)}: return rows "
            "for each of these every time, empty ones too"
        )


def bodies(frame: pl.DataFrame) -> Iterator[tuple[int, bytes]]:
    """The frame in as few bodies as fit into messages, with their rows; nothing for no rows."""
    if frame.height == 0:
        return
    body = to_body(frame)
    fits = len(body) <= MAX_BODY and unpacked_size(body) <= MAX_FRAME
    if fits or frame.height == 1:
        yield frame.height, body
        return
    half = frame.height // 2
    yield from bodies(frame[:half])
    yield from bodies(frame[half:])


def body_digest(spec: Spec, sender: str, seq: int, body: bytes) -> str:
    return digest_of(spec.digest, sender, seq, body)
