"""What every data set's generator offers, and what they all share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from booksan.errors import UsageError
from booksan.generate.dirt import Dirt
from booksan.generate.files import PLAIN, Progress, Row, Style, Written, records, write


@dataclass(frozen=True)
class Generated:
    """The two files that were written, in the order of the sources."""

    first: Written
    second: Written

    @property
    def written(self) -> tuple[Written, Written]:
        return self.first, self.second

    @property
    def paths(self) -> tuple[Path, Path]:
        return self.first.path, self.second.path

    @property
    def rows(self) -> int:
        return self.first.rows + self.second.rows

    @property
    def bytes(self) -> int:
        return self.first.bytes + self.second.bytes


class Make(Protocol):
    """Writes both files into the directory `out`.

    The second one gets `rows` rows, and the first one as many as go with them, or `first_rows`.
    A dirty file holds the rows of the clean one, and bad records between them. Now and then
    `progress` is called with the number of rows written since the last call.
    """

    def __call__(
        self,
        out: Path,
        *,
        rows: int,
        seed: int,
        dirty: bool = False,
        progress: Progress | None = None,
        first_rows: int | None = None,
    ) -> Generated: ...


@dataclass(frozen=True)
class Generator:
    """How the files of one data set are made: their public names, and the function for it."""

    files: tuple[str, str]
    #: What the rows are that `rows` counts.
    rows_help: str
    generate: Make
    #: Further names of the arguments `rows` and `first_rows` on the command line.
    options: Mapping[str, str] = field(default_factory=dict)


def prepare(out: Path, *numbers: int) -> None:
    """Make the directory, unless one of the numbers of rows is none."""
    if min(numbers) < 0:
        wanted = " and ".join(map(str, numbers))
        raise UsageError(f"cannot make {wanted} rows: use numbers from 0 on")
    out.mkdir(parents=True, exist_ok=True)


def write_rows(
    path: Path,
    columns: tuple[str, ...],
    rows: Iterable[Row],
    total: int,
    *,
    dirt: Dirt | None = None,
    progress: Progress | None = None,
    style: Style = PLAIN,
) -> Written:
    """Write the rows, of which there are `total`, with the bad records of `dirt` between them."""
    if dirt is None:
        return write(path, columns, records(rows, style), progress, style)
    written = write(path, columns, dirt.records(rows, total), progress, style)
    return replace(written, bad=dirt.bad)
