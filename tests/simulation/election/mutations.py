"""Elections that are broken on purpose. Each must be caught.

Those in MUTATIONS by the simulation; the others, which need a rare coincidence, by a unit test.
"""

from typing import Any

from booksan.membership.machine import Election
from booksan.membership.member import Claim, Contacts, Role, Timing
from booksan.membership.messages import Action, Guard, Message, PersistTerm, Stamp, Term

#: What World takes instead of the real thing.
MUTATIONS: dict[str, dict[str, Any]] = {}


def _machine(mutant: type[Election]) -> type[Election]:
    MUTATIONS[mutant.__name__] = {"machine": mutant}
    return mutant


class TextId(int):
    def __lt__(self, other: int) -> bool:
        return str(int(self)) < str(int(other))

    def __gt__(self, other: int) -> bool:
        return str(int(self)) > str(int(other))


@_machine
class ComparesIdsAsText(Election):
    def __init__(self, host: int, *args: Any) -> None:
        super().__init__(TextId(host), *args)


@_machine
class ActsWithoutLease(Election):
    """Others take over while it stands still, and it may still act."""

    def acts(self, now: float) -> bool:
        return self.role is Role.LEADER


@_machine
class GoesOnAfterStandingStill(Election):
    def _check_lease(self, now: float, out: list[Action]) -> None:
        pass


@_machine
class PersistsNoTerm(Election):
    def _adopt(self, term: Term, out: list[Action]) -> None:
        self.term = term


@_machine
class PersistsTooLate(Election):
    """After the messages that tell of the term."""

    def tick(self, now: float) -> list[Action]:
        return sorted(super().tick(now), key=lambda action: isinstance(action, PersistTerm))


@_machine
class ActsBeforeOthersAgree(Election):
    def _claim_lead(self, now: float, out: list[Action]) -> None:
        super()._claim_lead(now, out)
        self._claim = _ClearAtOnce(self._asked)


class _ClearAtOnce(Claim):
    def clear_from(self, contacts: Contacts, now: float) -> float:
        return now


class WaitsNotForTheDisk(Election):
    """Counts the time of the others from before its claim was written and told."""

    def _claim_lead(self, now: float, out: list[Action]) -> None:
        super()._claim_lead(now, out)
        self._claim.announced(now, self._timing)


@_machine
class IgnoresTerms(Election):
    def _see_term(self, message: Message, now: float, out: list[Action]) -> None:
        pass


@_machine
class AgreesAndStillLeads(Election):
    def _stop_acting(self, reason: str, out: list[Action]) -> None:
        pass


@_machine
class TakesAnyAgreement(Election):
    """Without the echoed nonce, so that recordings and late answers count."""

    def _on_agreed(self, message: Message, now: float, out: list[Action]) -> None:
        if self.role is Role.CLAIMING:
            self._claim.agreed.add(message.sender)


class LeadsBeforeAllIsRead(Election):
    def handle(self, message: Message, now: float) -> list[Action]:
        return super().handle(message, now) + super().tick(now)


@_machine
class AsksNobodyAbove(Election):
    def _above(self, now: float) -> list[int]:
        return []


class BelievesInLeavingForEver(Election):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        contacts = self._contacts
        contacts.left_lately = lambda host, now: host in contacts.left  # type: ignore[method-assign]


@_machine
class StaysSilentWhenItLeaves(Election):
    """And keeps the lead, as after a SIGTERM that nobody looked at."""

    def leave(self, now: float) -> list[Action]:
        return []


class TakesReplays(Guard):
    def admit(self, sender: int, stamp: Stamp) -> bool:
        super().admit(sender, stamp)
        return True

    def proven(self, stamp: Stamp) -> bool:
        return True


MUTATIONS["TakesReplaysAndAnyAgreement"] = {"guard": TakesReplays, "machine": TakesAnyAgreement}


class Hasty(Timing):
    """Does not wait for the lease of those who do not answer."""

    def __post_init__(self) -> None:
        pass


MUTATIONS["WaitsForNoLease"] = {"timing": Hasty(handover=0.1)}
MUTATIONS["SuspectsTooEarly"] = {"timing": Hasty(suspicion=1.0)}
