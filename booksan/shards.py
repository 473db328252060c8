"""A shard of a stage: how it is written, and which keys belong to it."""

import zlib
from typing import NamedTuple


class ShardId(NamedTuple):
    stage: str
    shard: int

    @classmethod
    def parse(cls, text: str) -> "ShardId":
        """The shard that is written `q3-join.0`; ValueError for anything else."""
        stage, _, number = text.rpartition(".")
        return cls(stage, int(number))

    def __str__(self) -> str:
        """For people and for queues: `q3-join.0`."""
        return f"{self.stage}.{self.shard}"

    @property
    def file_name(self) -> str:
        """In names of files, where a full stop begins the ending: `q3-join-0`."""
        return f"{self.stage}-{self.shard}"

    @property
    def sender(self) -> str:
        """On messages, beside `gateway/<source>`: `q3-join/0`."""
        return f"{self.stage}/{self.shard}"


def queue_name(stage: str, shard: int) -> str:
    """A shard has one input queue, which is named after it."""
    return str(ShardId(stage, shard))


def shard_of(key: str, shards: int) -> int:
    """Which shard a key belongs to: the same in all processes, on all machines, in all versions.

    crc32 of the UTF-8 bytes: fast, spread well enough, and fixed for ever by its standard.
    """
    return zlib.crc32(key.encode()) % shards if shards > 1 else 0
