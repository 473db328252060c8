"""Dead letters in all data directories of this user: found, replayed, removed."""

import json
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from booksan.cluster.credentials import spool_address
from booksan.cluster.depths import cluster_queues
from booksan.cluster.paths import CLUSTER_FILE, clusters_directory, read_record
from booksan.cluster.prepare import known_queues
from booksan.errors import UsageError
from booksan.host.config import HOST_FILE
from booksan.shards import ShardId, queue_name
from booksan.transport import QUEUES_VARIABLE, Outgoing, open_transport
from booksan.worker.failures import remove_letter
from booksan_common.files import state_home
from booksan_common.names import similar

# All data directories of this user: of runs, of hosts, of clusters; and the queues of each.

RUN_FILE = "run.json"


class DataDirectory(NamedTuple):
    path: Path
    #: As far as it is known; with *** where a password is missing.
    queues: str | None

    def reachable_queues(self) -> str:
        """The address of its queues, complete; what the user says goes first."""
        address = os.environ.get(QUEUES_VARIABLE) or self.queues
        if address is None or "***" in address:
            raise UsageError(
                f"the queues of {self.path} are not known here; set {QUEUES_VARIABLE} to their "
                "address"
            )
        return address


def data_directories(given: Sequence[Path] = ()) -> list[DataDirectory]:
    """Those that were named, or all in the user's state directory."""
    if not given:
        return list(_known())
    return [found for path in given for found in _named(path.absolute())]


def _known() -> Iterator[DataDirectory]:
    state = state_home()
    for path in sorted((state / "runs").glob(f"*/{RUN_FILE}")):
        yield _run(path.parent)
    for path in sorted((state / "hosts").glob(f"*/*/{HOST_FILE}")):
        yield _host(path.parent)
    for path in sorted(clusters_directory().glob(f"*/{CLUSTER_FILE}")):
        yield from _cluster(path.parent)


def _named(path: Path) -> Iterator[DataDirectory]:
    if (path / CLUSTER_FILE).exists():
        yield from _cluster(path)
    elif (path / RUN_FILE).exists():
        yield _run(path)
    elif (path.parent.parent / CLUSTER_FILE).exists():
        yield from (one for one in _cluster(path.parent.parent) if one.path == path)
    elif (path / HOST_FILE).exists() or (path / "clients").is_dir():
        yield _host(path)
    else:
        raise UsageError(
            f"{path} is not a data directory of booksan: it holds no {RUN_FILE}, {HOST_FILE} or "
            f"{CLUSTER_FILE}"
        )


def _run(path: Path) -> DataDirectory:
    return DataDirectory(path, spool_address(path))


def _host(path: Path) -> DataDirectory:
    return DataDirectory(path, known_queues(path))


def _cluster(directory: Path) -> Iterator[DataDirectory]:
    record = read_record(directory)
    if record is not None:
        queues = cluster_queues(record)
        for host in record.hosts.values():
            yield DataDirectory(Path(host.data_dir), queues)


# Dead letters: found, replayed, removed.


@dataclass(frozen=True)
class DeadLetter:
    id: str
    stage: str
    shard: int
    error: str
    #: Wall-clock seconds.
    time: int
    client: str | None
    sender: str | None
    kind: str | None
    seq: int | None
    bytes: int
    directory: DataDirectory
    #: Where in the code; empty if no error was raised.
    traceback: str = ""

    @property
    def queue(self) -> str:
        return queue_name(self.stage, self.shard)

    @property
    def path(self) -> Path:
        place = ShardId(self.stage, self.shard).file_name
        return self.directory.path / "letters" / place / f"{self.id}.msg"

    @property
    def when(self) -> str:
        return datetime.fromtimestamp(self.time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

    def as_dict(self) -> dict[str, Any]:
        found = {name: value for name, value in vars(self).items() if name != "directory"}
        return found | {"data_dir": str(self.directory.path), "path": str(self.path)}


def find_letters(directories: Iterable[DataDirectory]) -> list[DeadLetter]:
    """All of them, oldest first; workers may put some away meanwhile."""
    found = [letter for directory in directories for letter in _letters_in(directory)]
    return sorted(found, key=lambda letter: (letter.time, letter.id))


def _letters_in(directory: DataDirectory) -> Iterator[DeadLetter]:
    for path in directory.path.glob("letters/*/*.json"):
        try:
            about = json.loads(path.read_text("utf-8"))
            size = path.with_suffix(".msg").stat().st_size
        except FileNotFoundError:
            continue
        except ValueError:
            raise UsageError(f"{path} is damaged; the letter itself is beside it") from None
        yield DeadLetter(
            id=path.stem,
            stage=str(about["stage"]),
            shard=int(about["shard"]),
            error=str(about["error"]),
            time=int(about["time"]),
            client=about.get("client"),
            sender=about.get("sender"),
            kind=about.get("kind"),
            seq=about.get("seq"),
            bytes=size,
            directory=directory,
            traceback=str(about.get("traceback", "")),
        )


def choose(
    letters: Sequence[DeadLetter], wanted: Sequence[str], *, every: bool
) -> list[DeadLetter]:
    """By the beginnings of their ids, or all."""
    if every == bool(wanted):
        raise UsageError("name letters by their ids, or take all of them with --all")
    if every:
        return list(letters)
    chosen: dict[Path, DeadLetter] = {}
    for beginning in wanted:
        found = [letter for letter in letters if letter.id.startswith(beginning)]
        if len({letter.id for letter in found}) != 1:
            raise UsageError(_not_one(beginning, {letter.id for letter in found or letters}, found))
        chosen |= {letter.path: letter for letter in found}
    return list(chosen.values())


def _not_one(beginning: str, ids: Collection[str], found: Sequence[DeadLetter]) -> str:
    if found:
        return f"several letters begin with {beginning!r}: {', '.join(sorted(ids))}"
    near = similar(beginning, ids)
    hint = f"did you mean {near!r}? " if near else ""
    return f"no letter begins with {beginning!r}; {hint}`booksan letters list` shows their ids"


def replay(letter: DeadLetter) -> None:
    """The very same bytes once more; the worker that handles them puts the letter away."""
    body = letter.path.read_bytes()
    with open_transport(letter.directory.reachable_queues()) as transport:
        transport.publish([Outgoing(letter.queue, body)])


def remove(letter: DeadLetter) -> None:
    remove_letter(letter.directory.path, letter.stage, letter.shard, letter.id)
