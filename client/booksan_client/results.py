"""The answers of a run whose upload was done by an earlier command."""

from contextlib import ExitStack, closing
from pathlib import Path

from booksan_client.api import Api
from booksan_client.collect import Collector, Summary
from booksan_client.display import RunDisplay
from booksan_client.errors import InputError, RunFailed, RunGone, UsageError
from booksan_client.follow import Follower
from booksan_client.healing import Healer, Part
from booksan_client.journal import Journal
from booksan_client.state import ClientDirectory, ClientState
from booksan_client.status import Status
from booksan_client.submission import LOOK


class Results:
    """Waits for them, and sends again what got lost, as the command of the upload would do."""

    def __init__(
        self, collector: Collector, display: RunDisplay, directory: ClientDirectory | None
    ) -> None:
        """Without a directory, as the operator has none, nothing can be sent again."""
        self._collector = collector
        self._api = collector.api
        self._display = display
        self._directory = directory
        self._state = directory.load() if directory else None
        self._stack = ExitStack()
        self._healer: Healer | None = None
        self._told: set[str] = set()

    def fetch(self, *, keep: bool) -> Summary:
        try:
            with self._stack:
                summary = self._fetch()
            if not keep:
                self._api.acknowledge()
                self._forget()
        except RunGone as error:
            if not error.how and self._state is not None:
                raise RunGone(
                    f"the server has lost the run {self._api.id}; the same submit command sends "
                    "everything again"
                ) from error
            self._forget()
            raise
        return summary

    def _forget(self) -> None:
        if self._directory is not None:
            self._directory.remove()

    def _fetch(self) -> Summary:
        status = self._api.status()
        self._check_uploaded(status)
        self._collector.out.check(status.answers)
        self._display.begin((), resumed=False)
        follower = Follower(self._api, status, show_stages=self._display.shows_stages)
        self._stack.enter_context(follower)
        follower.hurry()
        while True:
            self._judge(status)
            self._collector.look_at(status)
            self._display.moved(status)
            if status.done:
                self._collector.finish(status)
                return self._collector.summary
            self._heal(status)
            follower.wait_for_news(status, LOOK)
            status = follower.latest()

    def _check_uploaded(self, status: Status) -> None:
        """What an earlier command has sent to the end can be healed; what it has not, cannot."""
        if status.state != "uploading" or (self._state and self._state.phase != "uploading"):
            return
        lacking = _without_end(status)
        if lacking or not status.sources:
            raise UsageError(
                f"the upload of {status.id} is not complete ({', '.join(lacking)}); the same "
                "submit command goes on with it"
            )

    def _judge(self, status: Status) -> None:
        self._collector.look()
        if status.failed is not None:
            raise RunFailed(f"{status.failed}; booksan cancel {status.id} removes the run")
        if self._directory and self._state and self._state.ticket != status.ticket:
            self._state.ticket = status.ticket
            self._directory.save(self._state)

    def _heal(self, status: Status) -> None:
        if self._directory is None or self._state is None:
            return
        if not (status.resend or status.stalled or _without_end(status)):
            return
        if status.stalled is not None:
            self._tell(status.stalled.words())
        try:
            self._healer = self._healer or self._new_healer(self._directory, self._state)
            self._healer.heal(status)
        except InputError as error:
            # Perhaps it is only slow; the server decides whether the run fails.
            self._tell(f"what got lost cannot be sent again: {error}")

    def _new_healer(self, directory: ClientDirectory, state: ClientState) -> Healer:
        parts = {}
        for source in Api(self._api.caller).dataset(state.dataset).sources:
            path = directory.journal(source.name)
            if path.exists() and source.name in state.files:
                file = state.files[source.name]
                journal = self._stack.enter_context(closing(Journal(path, file, {})))
                parts[source.name] = Part(Path(file["path"]), source.delimiter, journal)
        healer = Healer(self._api, parts, self._display.note, self._collector.look)
        for name, part in parts.items():
            healer.expect(name, len(part.journal.entries))
        return healer

    def _tell(self, text: str) -> None:
        """Each thing once."""
        if text not in self._told:
            self._told.add(text)
            self._display.note(text)


def _without_end(status: Status) -> list[str]:
    return [name for name, each in status.sources.items() if each.of_batches is None]
