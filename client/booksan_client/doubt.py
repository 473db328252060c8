"""Whether a file whose times or inode differ still holds what was sent of it."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for

from booksan_client.errors import Interrupted
from booksan_client.healing import Part
from booksan_client.upload import LOOK, compare


class Doubts:
    """Reads such files once more beside the upload; raises the InputError where it is looked for.

    Only what the journals knew at the start is read here: an upload compares the rest itself.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "compare")
        self._stopped = threading.Event()
        self._open: list[Future[None]] = []

    def about(self, part: Part) -> None:
        self._open.append(self._pool.submit(self._compare, part))

    def settled(self) -> bool:
        """Whether there is none left."""
        for future in [each for each in self._open if each.done()]:
            future.result()
            self._open.remove(future)
        return not self._open

    def settle(self, look: Callable[[], object]) -> None:
        """Waits until there is none left."""
        while not self.settled():
            look()
            wait_for(self._open, LOOK)

    def close(self) -> None:
        self._stopped.set()
        self._pool.shutdown(cancel_futures=True)

    def _compare(self, part: Part) -> None:
        compare(part.path, part.journal, self._check_stopped, delimiter=part.delimiter)

    def _check_stopped(self) -> None:
        if self._stopped.is_set():
            raise Interrupted
