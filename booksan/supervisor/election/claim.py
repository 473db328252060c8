"""The hand-over: who has to agree before a host may lead."""

from booksan.supervisor.election.contacts import Contacts
from booksan.supervisor.election.timing import Timing


class Claim:
    """One attempt to lead: all others have agreed, are absent, or had the time to stop."""

    def __init__(self, nonce: int) -> None:
        self.nonce = nonce
        self.agreed: set[int] = set()
        self._over: float | None = None

    def announced(self, now: float, timing: Timing) -> None:
        """All have been told by now; only the first time counts."""
        if self._over is None:
            self._over = now + timing.handover

    def clear_from(self, contacts: Contacts, now: float) -> float:
        """From when on nobody else can be acting, as far as is known now."""
        if self._over is None:
            # It is still to be written to disk and told, and a disk can be slow.
            return now
        waiting = (
            contacts.absent_from(host, now) for host in contacts.heard if host not in self.agreed
        )
        return min(max(waiting, default=float("-inf")), self._over)
