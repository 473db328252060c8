"""Answers from the server as files: each as soon as it is complete, whole or not at all."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from booksan_client.api import ClientApi, Page
from booksan_client.errors import RunFailed
from booksan_client.out import REJECTED, OutDirectory, Pieces
from booksan_client.status import Status
from booksan_client.wire import Sink

#: Rows of an answer that are shown; all of them are in the file.
ROWS_SHOWN = 10


class AnswerDisplay(Protocol):
    """What is told about answers."""

    @property
    def shows_answers(self) -> bool: ...
    def answer(self, page: Page, path: Path) -> None: ...
    def note(self, text: str) -> None: ...


@dataclass
class Summary:
    """What there is to tell at the end."""

    files: dict[str, str] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)
    megabytes: float = 0.0
    seconds: float = 0.0
    resumed: bool = False
    #: Batches that an earlier process had begun to send and did not know to be taken.
    resent: int = 0


class Collector:
    """Fetches answers into a directory."""

    def __init__(
        self,
        api: ClientApi,
        out: OutDirectory,
        form: str,
        display: AnswerDisplay,
        look: Callable[[], object] = lambda: None,
    ) -> None:
        """`look` is called while an answer is being fetched; it raises to end that."""
        self.api = api
        self.out = out
        self.form = form
        self.display = display
        self.look = look
        self.summary = Summary()

    def look_at(self, status: Status) -> None:
        """Fetches what has become complete since the last look."""
        for name, answer in status.answers.items():
            if answer.complete and name not in self.summary.answers:
                self._fetch(name, answer.rows)

    def finish(self, status: Status) -> None:
        """Everything else that a run leaves, once it is done."""
        self.look_at(status)
        missing = set(status.answers) - set(self.summary.answers)
        if missing:
            raise RunFailed(f"the run is done, but not complete: {', '.join(sorted(missing))}")
        self.write_rejected(status)
        self.summary.rows = {name: found.rows for name, found in status.sources.items()}
        self.summary.rejected = {name: found.rejected for name, found in status.sources.items()}

    def write_rejected(self, status: Status) -> None:
        """The rejected rows known so far."""
        rows = 0
        if status.rejected:
            rows = self._write(REJECTED, self.api.rejected).lines - 1
        if rows > 0:
            path = self.out.path / REJECTED
            self.summary.files["rejected"] = str(path)
            self.display.note(f"{words_for_rows(rows)} rejected; {path} says which and why")
        else:
            # One from an earlier run would tell of rows that these files do not have.
            self.out.remove(REJECTED)

    def _fetch(self, name: str, rows: int) -> None:
        path = self.out.path / f"{name}.{self.form}"
        self._write(path.name, lambda sink: self.api.answer(name, self.form, sink))
        self.summary.files[name] = str(path)
        self.summary.answers[name] = rows
        if self.display.shows_answers:
            page = self.api.page(name, ROWS_SHOWN)
            self.summary.answers[name] = page.total
            self.display.answer(page, path)

    def _write(self, name: str, fetch: Callable[[Callable[[], Sink]], object]) -> Pieces:
        # Before the first of the new ones appears, not before there is one.
        self.out.begin(self.api.id, self.form)
        with self.out.writing(name, self.look) as pieces:
            fetch(pieces.begin)
        return pieces


def words_for_rows(count: int) -> str:
    return "1 row was" if count == 1 else f"{count:,} rows were"
