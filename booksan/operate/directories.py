"""All data directories of this user: of runs, of hosts, of clusters; and the queues of each."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from booksan.cluster.credentials import QUEUES, spool_address
from booksan.cluster.lengths import cluster_queues
from booksan.cluster.places import clusters_directory
from booksan.cluster.prepare import known_queues
from booksan.cluster.record import CLUSTER_FILE, read_record
from booksan.errors import UsageError
from booksan.local.workspace import state_home
from booksan.supervisor.config import HOST_FILE

RUN_FILE = "run.json"


class DataDirectory(NamedTuple):
    path: Path
    #: As far as it is known; with *** where a password is missing.
    queues: str | None

    def reachable_queues(self) -> str:
        """The address of its queues, complete; what the user says goes first."""
        address = os.environ.get(QUEUES) or self.queues
        if address is None or "***" in address:
            raise UsageError(
                f"the queues of {self.path} are not known here; set {QUEUES} to their address"
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
