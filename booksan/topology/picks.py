"""Shards picked by hand: `q3-join` is all shards of the stage, `q3-join.1` one of them."""

import hashlib
import re

from booksan.errors import UsageError
from booksan.topology.model import ShardName, Topology
from booksan.topology.section import nearest

_PICK = re.compile(r"(?P<stage>[^.]+)(\.(?P<shard>[0-9]{1,6}))?")


def pick_shards(topology: Topology, text: str) -> tuple[ShardName, ...]:
    """In the order of the picks; picking one twice is picking it once."""
    picked: dict[ShardName, None] = {}
    for pick in filter(None, (part.strip() for part in text.split(","))):
        picked.update(dict.fromkeys(_shards(topology, pick)))
    if not picked:
        raise UsageError(f"--stages names no stage; {nearest('', topology.shards)}")
    return tuple(picked)


def _shards(topology: Topology, pick: str) -> list[ShardName]:
    found = _PICK.fullmatch(pick)
    stage = found["stage"] if found else pick
    if found is None or stage not in topology.shards:
        raise UsageError(
            f"--stages: {topology.name} has no stage {stage!r}; {nearest(stage, topology.shards)}"
        )
    count = topology.shards[stage]
    if found["shard"] is None:
        return [ShardName(stage, number) for number in range(count)]
    if int(found["shard"]) >= count:
        raise UsageError(
            f"--stages: {topology.name} has no shard {pick}; {stage} has 0 to {count - 1}"
        )
    return [ShardName(stage, int(found["shard"]))]


def name_of_picks(text: str) -> str:
    """A host's name made of its picks: the same picks, the same data directory."""
    picks = sorted({part.strip() for part in text.split(",")} - {""})
    name = "-".join(pick.replace(".", "-") for pick in picks)
    if len(name) <= 48:
        return name
    return f"{name[:39]}-{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()}"
