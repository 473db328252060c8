"""A byte that flips, a file that is cut short or missing, under one of two clients."""

import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

from booksan.doctor import Level, check_data
from booksan.errors import MessageError, StateError
from booksan.messages import decode
from booksan.state.shard import ShardStore
from tests.disk.power import Counts, judged
from tests.disk.world import CLIENT, DiskWorld, Lost
from tests.simulation.world import SCRATCH, Client
from tests.support.data import Sample, shards_of

OTHER = "two"
KINDS = ("flipped", "shortened", "removed")
#: Seconds of the simulated clock in which everything must have come to an end.
WITHIN = 8 * 3600.0


def damage_files(sample: Sample, other: Sample, seeds: range) -> tuple[Counts, Counter[str]]:
    """What came of it, and how the runs that were hit have ended."""
    found, ends = Counts(), Counter[str]()
    for seed in seeds:
        root = Path(tempfile.mkdtemp(prefix="booksan-damage-", dir=SCRATCH))
        found.cuts += 1
        try:
            judged(found, seed, lambda s=seed, r=root: ends.update([_one(r, sample, other, s)]))  # type: ignore[misc]
        finally:
            shutil.rmtree(root)
    return found, ends


def _one(root: Path, sample: Sample, other: Sample, seed: int) -> str:
    chance = random.Random(seed)
    with closing(_world(root, sample, other, seed)) as world:
        for _ in range(chance.randint(20, 250)):
            world._step()
        clients = world.clients
    kind = chance.choice(KINDS)
    path = chance.choice(_files_of(root, CLIENT))
    _damage(path, kind, chance)
    what = f"{path.relative_to(root)} {kind}"
    _examine(root, path, kind)
    with closing(_world(root, sample, other, seed)) as world:
        world.clients = clients
        try:
            world.run_healing(WITHIN)
        except AssertionError as error:
            raise Lost(f"{what}: {error}") from error
        assert world.failure(OTHER) is None, f"{what}: {world.failure(OTHER)}"
        assert world.answers(OTHER) == other.answers, f"{what}: other answers of the other"
        reason = world.failure(CLIENT)
        if reason is not None:
            return "failed with its reason"
        if world.answers(CLIENT) == sample.answers:
            return "right all the same"
    # SQLite has no checksums in a database itself; its log has.
    assert path.suffix == ".db", f"{what}: other answers"
    assert kind == "flipped", f"{what}: other answers"
    return "other answers"


def _world(root: Path, sample: Sample, other: Sample, seed: int) -> DiskWorld:
    world = DiskWorld(root, sample, seed)
    spec = other.spec(OTHER, shards_of(other.dataset, 1))
    world.clients[OTHER] = Client(spec, other.batches)
    world.see(spec)
    for each in world.clients.values():
        world.gateway.create(each.spec)
    return world


def _files_of(root: Path, client: str) -> list[Path]:
    """Databases and messages of one client."""
    found = [path for path in root.glob(f"clients/{client}/*") if not path.name.endswith("-shm")]
    for path in root.glob("queues/*/messages/*"):
        with suppress(MessageError):
            if decode(path.read_bytes()).client == client:
                found.append(path)
    return sorted(found)


def _damage(path: Path, kind: str, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if kind == "removed" or not data:
        path.unlink()
    elif kind == "shortened":
        path.write_bytes(data[: chance.randrange(len(data))])
    else:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)


def _examine(root: Path, path: Path, kind: str) -> None:
    """The doctor names a message that is not what it was."""
    if path.parent.name != "messages" or kind == "removed":
        return
    found = [one for one in check_data(root) if one.level is Level.FAIL]
    assert [str(path) in one.found for one in found] == [True], f"the doctor says {found}"


def damage_shard(root: Path) -> str:
    """What a worker says whose own database is no database."""
    with closing(ShardStore(root, "q1", 0)):
        pass
    path = root / "shards" / "q1-0.db"
    path.write_bytes(b"no database" * 1000)
    try:
        ShardStore(root, "q1", 0)
    except StateError as error:
        return str(error)
    except sqlite3.Error as error:
        raise AssertionError(f"not in words: {error}") from error
    raise AssertionError("nobody noticed")
