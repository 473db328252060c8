"""Dead letters: found, replayed, removed."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from booksan.errors import UsageError
from booksan.operate.directories import DataDirectory
from booksan.stages.graph import queue_name
from booksan.transport import Outgoing, open_transport
from booksan.worker.letters import remove_letter


@dataclass(frozen=True)
class Letter:
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

    @property
    def queue(self) -> str:
        return queue_name(self.stage, self.shard)

    @property
    def path(self) -> Path:
        place = f"{self.stage}-{self.shard}"
        return self.directory.path / "letters" / place / f"{self.id}.msg"

    @property
    def when(self) -> str:
        return datetime.fromtimestamp(self.time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

    def as_dict(self) -> dict[str, Any]:
        found = {name: value for name, value in vars(self).items() if name != "directory"}
        return found | {"data_dir": str(self.directory.path), "path": str(self.path)}


def find_letters(directories: Iterable[DataDirectory]) -> list[Letter]:
    """All of them, oldest first; workers may put some away meanwhile."""
    found = [letter for directory in directories for letter in _letters_in(directory)]
    return sorted(found, key=lambda letter: (letter.time, letter.id))


def _letters_in(directory: DataDirectory) -> Iterator[Letter]:
    for path in directory.path.glob("letters/*/*.json"):
        try:
            about = json.loads(path.read_text("utf-8"))
            size = path.with_suffix(".msg").stat().st_size
        except FileNotFoundError:
            continue
        except ValueError:
            raise UsageError(f"{path} is damaged; the letter itself is beside it") from None
        yield Letter(
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
        )


def choose(letters: Sequence[Letter], wanted: Sequence[str], *, every: bool) -> list[Letter]:
    """By the beginnings of their ids, or all."""
    if every == bool(wanted):
        raise UsageError("name letters by their ids, or take all of them with --all")
    if every:
        return list(letters)
    chosen: dict[Path, Letter] = {}
    for beginning in wanted:
        found = [letter for letter in letters if letter.id.startswith(beginning)]
        if len({letter.id for letter in found}) != 1:
            problem = "several letters begin" if found else "no letter begins"
            raise UsageError(
                f"{problem} with {beginning!r}; `booksan letters list` shows their ids"
            )
        chosen |= {letter.path: letter for letter in found}
    return list(chosen.values())


def replay(letter: Letter) -> None:
    """The very same bytes once more; the worker that handles them puts the letter away."""
    body = letter.path.read_bytes()
    with open_transport(letter.directory.reachable_queues()) as transport:
        transport.publish([Outgoing(letter.queue, body)])


def remove(letter: Letter) -> None:
    remove_letter(letter.directory.path, letter.stage, letter.shard, letter.id)
