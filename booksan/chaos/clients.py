"""This user's clients: which process works on one, and whether its run has ended.

A client is found by the lock in its directory, never by the name of a program.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from booksan.chaos.locks import Locks
from booksan.cluster.processes import ProcessId
from booksan.errors import BooksanError
from booksan_client.connect import connect
from booksan_client.credentials import OPERATOR_TOKEN, read_token
from booksan_client.errors import ClientError, RunGone
from booksan_client.state import known_clients

_CLIENT_LOCK = "client.lock"
#: Seconds for one question about a run, asked again later if nobody answers.
_ASK_SECONDS = 2.0


@dataclass(frozen=True)
class ClientProcess:
    id: str
    #: None while nobody works on it.
    process: ProcessId | None


def find_clients(locks: Locks) -> Iterator[ClientProcess]:
    """All that are known in the user's state directory."""
    try:
        for path, state in known_clients():
            yield ClientProcess(state.id, locks.holder(path / _CLIENT_LOCK))
    except ClientError as error:
        raise BooksanError(str(error)) from error


class Word(Enum):
    """What the cluster says of a client."""

    GOING_ON = "going on"
    ENDED = "ended"
    UNKNOWN = "unknown"


def ask_cluster(id: str, gateways: list[str], token_file: Path | None) -> Word | None:
    """None when nobody answers."""
    try:
        token = read_token(token_file, OPERATOR_TOKEN)
        with closing(connect(gateways, token, _no_look, _ASK_SECONDS)) as api:
            status = api.client(id, None).status()
    except RunGone as error:
        return Word.ENDED if error.how else Word.UNKNOWN
    except ClientError:
        return None
    return Word.ENDED if status.done or status.failed is not None else Word.GOING_ON


def _no_look() -> None:
    """Nothing interrupts such a short question."""


class ClientEnd:
    """When a client is done or gone: nobody works on it, and the cluster says so too."""

    def __init__(self, id: str, patience: float) -> None:
        self.id = id
        #: Seconds that a client which was never seen may take to begin.
        self._patience = patience
        self._seen = False

    def is_at_work(self, clients: Iterable[ClientProcess]) -> bool:
        found = any(one.id == self.id and one.process is not None for one in clients)
        self._seen = self._seen or found
        return found

    def reached(self, word: Word | None, waited: float) -> bool:
        """For one that nobody works on. Before it begins the cluster does not know it either."""
        self._seen = self._seen or word in (Word.GOING_ON, Word.ENDED)
        if word is Word.UNKNOWN:
            return self._seen or waited > self._patience
        return word is Word.ENDED
