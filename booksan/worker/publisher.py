"""Out of the outbox into the queues: publish, confirm, and only then note that it is done."""

import sqlite3
from collections.abc import Iterable

from booksan.pulse import beat
from booksan.state import outbox
from booksan.transport.base import Outgoing
from booksan.worker.shard import Shard


class Publisher:
    def __init__(self, shard: Shard) -> None:
        self._transport = shard.transport
        self._chunk = shard.settings.publish_chunk
        self._crash = shard.crash

    def publish(self, db: sqlite3.Connection, *, keep: bool = False) -> None:
        """Everything that waits in the outbox, confirmed; `keep` it, to send it again if asked."""
        if not outbox.waiting(db):
            return
        for count, chunk in enumerate(outbox.chunks(db, self._chunk)):
            beat()
            if count:
                self._crash("partly-published")
            self._transport.publish([Outgoing(posted.queue, posted.body) for posted in chunk])
        self._crash("published")
        (outbox.mark_published if keep else outbox.clear)(db)
        self._crash("outbox-cleared")

    def publish_now(self, messages: Iterable[tuple[str, bytes]]) -> None:
        """What a stateless stage makes of its input, which is acknowledged after this."""
        outgoing = [Outgoing(queue, body) for queue, body in messages]
        for start in range(0, len(outgoing), self._chunk):
            if start:
                self._crash("partly-published")
            self._transport.publish(outgoing[start : start + self._chunk])
        self._crash("published")
