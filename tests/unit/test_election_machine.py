"""The election of one host, message by message."""

from typing import Any

import pytest

from booksan.membership.machine import Election
from booksan.membership.member import Role, Timing
from booksan.membership.messages import (
    NO_TERM,
    Action,
    BecomeLeader,
    DatagramKind,
    HostHealthy,
    HostSuspected,
    Message,
    PersistTerm,
    Send,
    StepDown,
    Term,
)
from tests.simulation.election.mutations import (
    BelievesInLeavingForEver,
    LeadsBeforeAllIsRead,
    WaitsNotForTheDisk,
)

T = Timing()


class Driver:
    """One host among others, and what it was told and did."""

    def __init__(
        self, host: int, *others: int, kind: type[Election] = Election, term: Term = NO_TERM
    ) -> None:
        self.now = 100.0
        self.machine = kind(host, (host, *others), term, 1000, T, self.now)
        self.others = others
        self.done: list[Action] = []

    def hear(
        self, kind: DatagramKind, sender: int, term: tuple[int, int] = (0, 0), **more: Any
    ) -> None:
        message = Message(kind, sender, Term(*term), 7, **{"boot": 1, "proven": True, **more})
        self.done += self.machine.handle(message, self.now)

    def turn(self) -> None:
        self.done += self.machine.tick(self.now)

    def wait(self, seconds: float) -> None:
        """Turn whenever it is due."""
        end = self.now + seconds
        while (due := self.machine.next_due()) <= end:
            self.now = max(self.now, due)
            self.turn()
        self.now = end

    def stand_still(self, seconds: float) -> None:
        self.now += seconds

    def sent(self, kind: DatagramKind) -> list[Send]:
        return [one for one in self.done if isinstance(one, Send) and one.message.kind is kind]

    def forget(self) -> None:
        self.done.clear()

    def agree(self) -> None:
        """All others agree to the claim."""
        claim = self.sent(DatagramKind.COORDINATOR)[-1].message
        for other in self.others:
            self.hear(DatagramKind.AGREED, other, claim.term, echo=claim.nonce)
        self.turn()

    def events(self) -> list[Action]:
        return [one for one in self.done if not isinstance(one, Send | PersistTerm)]


def leader(host: int = 9, *others: int) -> Driver:
    driver = Driver(host, *others)
    driver.wait(T.answer + 0.01)
    driver.agree()
    assert driver.machine.role is Role.LEADER
    return driver


def follower(host: int, leader: int, *others: int, **options: Any) -> Driver:
    driver = Driver(host, leader, *others, **options)
    driver.turn()
    driver.hear(DatagramKind.COORDINATOR, leader, (5, leader))
    driver.forget()
    return driver


def test_the_term_is_persisted_before_anybody_hears_of_it() -> None:
    driver = Driver(3, 1, 2)
    driver.turn()
    assert driver.done[0] == PersistTerm(Term(1, 3))
    assert {one.to for one in driver.sent(DatagramKind.COORDINATOR)} == {1, 2}


def test_ids_are_compared_as_numbers() -> None:
    driver = Driver(10, 2, 9)
    driver.turn()
    assert not driver.sent(DatagramKind.ELECTION)
    assert driver.machine.role is Role.CLAIMING


def test_a_host_leads_when_all_have_agreed_and_not_before() -> None:
    driver = Driver(3, 1, 2)
    driver.turn()
    claim = driver.sent(DatagramKind.COORDINATOR)[0].message
    driver.hear(DatagramKind.AGREED, 1, claim.term, echo=claim.nonce)
    driver.turn()
    assert not driver.machine.acts(driver.now)
    driver.hear(DatagramKind.AGREED, 2, claim.term, echo=claim.nonce)
    driver.turn()
    assert BecomeLeader(Term(1, 3)) in driver.done
    assert driver.machine.acts(driver.now)


def test_agreement_to_another_claim_does_not_count() -> None:
    driver = Driver(3, 1)
    driver.turn()
    driver.hear(DatagramKind.AGREED, 1, (1, 3), echo=4711)
    driver.turn()
    assert driver.machine.role is Role.CLAIMING


def test_who_does_not_answer_is_given_the_time_of_a_lease_to_stop() -> None:
    driver = Driver(3, 1)
    driver.turn()
    driver.wait(T.lease + T.message_bound - 0.01)
    assert driver.machine.role is Role.CLAIMING
    assert len(driver.sent(DatagramKind.COORDINATOR)) > 5
    driver.wait(0.3)
    assert driver.machine.acts(driver.now)


def test_a_leader_stops_before_it_agrees_that_another_leads() -> None:
    driver = leader(3, 1, 9)
    driver.forget()
    driver.hear(DatagramKind.COORDINATOR, 9, (2, 9))
    kinds = [type(one) for one in driver.done]
    assert kinds == [StepDown, PersistTerm, Send]
    assert not driver.machine.acts(driver.now)
    (agreed,) = driver.sent(DatagramKind.AGREED)
    assert agreed.to == 9
    assert agreed.message.echo == 7


def test_a_claim_of_an_old_term_is_refused_with_the_later_one() -> None:
    driver = leader(3, 9)
    driver.hear(DatagramKind.COORDINATOR, 9, (1, 2))
    assert driver.sent(DatagramKind.AGREED)[0].message.term == Term(1, 3)
    assert driver.machine.acts(driver.now)


def test_a_refused_claim_is_made_again_in_a_later_term() -> None:
    driver = Driver(3, 1)
    driver.turn()
    driver.hear(
        DatagramKind.AGREED, 1, (8, 1), echo=driver.sent(DatagramKind.COORDINATOR)[0].message.nonce
    )
    driver.turn()
    assert driver.sent(DatagramKind.COORDINATOR)[-1].message.term == Term(9, 3)


def test_a_claim_from_below_makes_the_higher_host_claim_in_a_later_term() -> None:
    driver = leader(9, 1, 3)
    driver.forget()
    driver.hear(DatagramKind.COORDINATOR, 3, (4, 3))
    assert isinstance(driver.done[0], StepDown)
    assert driver.sent(DatagramKind.ALIVE)
    assert not driver.sent(DatagramKind.AGREED)
    driver.turn()
    assert driver.sent(DatagramKind.COORDINATOR)[0].message.term == Term(5, 9)


def test_a_host_that_hears_of_a_lower_leader_takes_the_lead_back() -> None:
    driver = Driver(3, 2, 1)
    driver.turn()
    driver.hear(DatagramKind.AGREED, 2, (4, 2), echo=0)
    driver.turn()
    driver.hear(DatagramKind.HEARTBEAT, 2, (6, 2))
    driver.turn()
    assert driver.sent(DatagramKind.COORDINATOR)[-1].message.term == Term(7, 3)


def test_a_silent_leader_is_followed_in_time() -> None:
    driver = follower(2, 3, 1)
    driver.wait(T.suspicion - 0.01)
    assert not driver.done
    driver.wait(T.answer + 0.05)
    assert {one.to for one in driver.sent(DatagramKind.ELECTION)} == {3}
    assert driver.machine.acts(driver.now)


def test_a_leader_that_is_heard_is_not_doubted() -> None:
    driver = follower(2, 3, 1)
    for _ in range(20):
        driver.wait(T.heartbeat)
        driver.hear(DatagramKind.HEARTBEAT, 3, (5, 3))
        driver.hear(DatagramKind.ELECTION, 1)
    assert driver.machine.leader == 3
    assert not driver.sent(DatagramKind.ELECTION)
    assert len(driver.sent(DatagramKind.ALIVE)) == 20


def test_who_hears_alive_waits_for_the_coordinator_and_then_asks_again() -> None:
    driver = Driver(1, 2)
    driver.turn()
    asked = driver.sent(DatagramKind.ELECTION)[0].message
    driver.hear(DatagramKind.ALIVE, 2, echo=asked.nonce)
    assert driver.machine.role is Role.AWAITING
    driver.forget()
    driver.wait(T.coordinator - 0.01)
    assert not driver.done
    driver.wait(0.02)
    assert driver.sent(DatagramKind.ELECTION)


def test_alive_without_the_nonce_of_the_question_does_not_stop_an_election() -> None:
    driver = Driver(1, 2)
    driver.turn()
    driver.hear(DatagramKind.ALIVE, 2, echo=4711)
    assert driver.machine.role is Role.ELECTING


def test_a_leader_whose_loop_stood_still_steps_down_before_it_does_anything() -> None:
    driver = leader(9, 1)
    driver.forget()
    driver.stand_still(T.lease - 0.01)
    assert driver.machine.acts(driver.now)
    driver.stand_still(0.02)
    assert not driver.machine.acts(driver.now)
    driver.hear(DatagramKind.ELECTION, 1)
    assert isinstance(driver.done[0], StepDown)
    assert not driver.sent(DatagramKind.HEARTBEAT)


def test_a_claim_does_not_outlive_a_loop_that_stood_still() -> None:
    driver = Driver(3, 1)
    driver.turn()
    claim = driver.sent(DatagramKind.COORDINATOR)[0].message
    driver.stand_still(T.lease + 0.1)
    driver.hear(DatagramKind.AGREED, 1, claim.term, echo=claim.nonce)
    driver.turn()
    assert not driver.machine.acts(driver.now)


@pytest.mark.parametrize(("kind", "leads"), [(Election, False), (LeadsBeforeAllIsRead, True)])
def test_all_that_arrived_is_read_before_anything_is_decided(
    kind: type[Election], leads: bool
) -> None:
    driver = follower(9, 11, 8, kind=kind)
    for _ in range(8):
        driver.wait(T.heartbeat)
        driver.hear(DatagramKind.HEARTBEAT, 11, (5, 11))
    # The loop stands still for a moment; meanwhile the leader left and a lower host took over.
    driver.stand_still(T.lease / 2)
    driver.hear(DatagramKind.LEAVING, 11, (5, 11))
    driver.hear(DatagramKind.LEAVING, 11, (5, 11))
    driver.hear(DatagramKind.COORDINATOR, 8, (6, 8))
    driver.hear(DatagramKind.HEARTBEAT, 8, (6, 8))
    driver.turn()
    assert (BecomeLeader in {type(one) for one in driver.done}) is leads


@pytest.mark.parametrize(("kind", "early"), [(Election, False), (WaitsNotForTheDisk, True)])
def test_the_time_to_stop_counts_from_when_a_claim_was_written_and_told(
    kind: type[Election], early: bool
) -> None:
    driver = Driver(3, 1, kind=kind)
    driver.turn()
    driver.stand_still(1.5)  # A slow disk: only now the claim is told.
    driver.hear(DatagramKind.ELECTION, 1)
    driver.wait(T.lease + T.message_bound - 0.01)
    assert driver.machine.acts(driver.now) is early


@pytest.mark.parametrize(("kind", "asks"), [(Election, True), (BelievesInLeavingForEver, False)])
def test_a_host_that_left_long_ago_is_asked_again(kind: type[Election], asks: bool) -> None:
    driver = follower(1, 11, 3, kind=kind)
    driver.hear(DatagramKind.LEAVING, 3)
    for _ in range(6):
        driver.wait(T.heartbeat)
        driver.hear(DatagramKind.HEARTBEAT, 11, (5, 11))
    driver.wait(T.suspicion + 0.1)
    assert (3 in {one.to for one in driver.sent(DatagramKind.ELECTION)}) is asks


def test_a_leader_that_leaves_is_followed_at_once() -> None:
    driver = follower(2, 3, 1)
    driver.hear(DatagramKind.LEAVING, 3, (5, 3))
    driver.turn()
    assert driver.sent(DatagramKind.COORDINATOR)
    driver.hear(
        DatagramKind.AGREED, 1, (6, 2), echo=driver.sent(DatagramKind.COORDINATOR)[0].message.nonce
    )
    driver.turn()
    assert driver.machine.acts(driver.now)


def test_leaving_ends_the_lead_at_once_and_is_said_to_all() -> None:
    driver = leader(9, 1, 2)
    driver.forget()
    driver.done += driver.machine.leave(driver.now)
    assert isinstance(driver.done[0], StepDown)
    assert not driver.machine.acts(driver.now)
    driver.wait(10.0)
    assert len(driver.sent(DatagramKind.LEAVING)) == 2 * T.farewells
    driver.hear(DatagramKind.HEARTBEAT, 2, (8, 2))
    assert driver.sent(DatagramKind.LEAVING)[-1].to == 2
    assert driver.machine.role is Role.LEFT


def test_a_host_that_left_is_not_suspected_until_it_was_back() -> None:
    driver = leader(9, 1)
    driver.hear(DatagramKind.LEAVING, 1, boot=4)
    driver.wait(10.0)
    assert driver.machine.left == {1}
    assert not driver.machine.suspected
    # One of the same life that was overtaken by its LEAVING.
    driver.hear(DatagramKind.PONG, 1, boot=4)
    driver.wait(10.0)
    assert not driver.machine.suspected
    driver.hear(DatagramKind.ELECTION, 1, boot=5)
    assert not driver.machine.left
    driver.wait(10.0)
    assert driver.machine.suspected == {1}


def test_a_recording_of_leaving_is_answered_and_not_believed() -> None:
    driver = leader(9, 1)
    driver.hear(DatagramKind.LEAVING, 1, proven=False)
    assert not driver.machine.left
    assert driver.sent(DatagramKind.PONG)


def test_a_recording_of_heartbeats_does_not_keep_a_dead_leader_alive() -> None:
    driver = follower(2, 3)
    for _ in range(8):
        driver.wait(T.heartbeat)
        driver.hear(DatagramKind.HEARTBEAT, 3, (5, 3), proven=False)
    assert driver.machine.leader != 3
    assert driver.sent(DatagramKind.PONG)


def test_a_host_that_does_not_answer_is_suspected_once_and_healthy_again_once() -> None:
    driver = leader(9, 1, 2)

    def answer() -> None:
        beat = driver.sent(DatagramKind.HEARTBEAT)[-1].message
        driver.hear(DatagramKind.PONG, 2, echo=beat.nonce)

    for _ in range(12):
        driver.wait(T.heartbeat)
        answer()
    assert driver.events().count(HostSuspected(1)) == 1
    assert driver.events().count(HostHealthy(2)) == 1
    assert driver.machine.suspected == {1}
    driver.hear(DatagramKind.PONG, 1, echo=driver.sent(DatagramKind.HEARTBEAT)[-1].message.nonce)
    assert driver.events()[-1] == HostHealthy(1)
    assert not driver.machine.suspected


def test_a_dead_host_is_suspected_within_three_and_a_half_seconds() -> None:
    driver = leader(9, 1)
    driver.wait(1.2)
    driver.hear(DatagramKind.PONG, 1, echo=driver.sent(DatagramKind.HEARTBEAT)[-1].message.nonce)
    driver.wait(T.suspicion - 0.05)
    assert not driver.machine.suspected
    driver.wait(0.5)
    assert driver.machine.suspected == {1}


@pytest.mark.parametrize("told", [False, True])
def test_a_leader_that_was_missed_is_suspected_by_the_next_one_at_once(told: bool) -> None:
    driver = follower(2, 3, 1)
    driver.wait(T.suspicion - 0.1)
    if told:
        # Somebody else missed it first.
        driver.hear(DatagramKind.ELECTION, 1)
    driver.wait(T.answer + 0.2)
    claim = driver.sent(DatagramKind.COORDINATOR)[0].message
    driver.hear(DatagramKind.AGREED, 1, claim.term, echo=claim.nonce)
    driver.wait(0.01)
    assert driver.machine.acts(driver.now)
    assert driver.events()[-1] == HostSuspected(3)
    assert driver.machine.suspected == {3}


def test_a_leader_that_left_is_never_suspected_by_the_next_one() -> None:
    driver = follower(2, 3, 1)
    driver.hear(DatagramKind.LEAVING, 3, (5, 3))
    driver.wait(T.suspicion + T.handover + 1.0)
    assert driver.machine.acts(driver.now)
    assert driver.machine.suspected == {1}


def test_a_leader_blames_nobody_for_its_own_standing_still() -> None:
    driver = leader(9, 1)
    driver.wait(2.0)
    driver.hear(DatagramKind.PONG, 1, echo=driver.sent(DatagramKind.HEARTBEAT)[-1].message.nonce)
    driver.wait(0.6)
    for seconds in (1.5, 1.0):
        driver.stand_still(seconds)
        driver.turn()
    assert driver.machine.role is Role.LEADER
    assert not driver.machine.suspected


def test_one_survivor_leads_alone() -> None:
    driver = follower(1, 3, 2)
    driver.wait(T.suspicion + T.answer + T.handover + 0.1)
    assert driver.machine.acts(driver.now)


def test_a_host_alone_in_its_cluster_leads_at_once() -> None:
    driver = Driver(1)
    driver.wait(0.0)
    assert driver.machine.acts(driver.now)
    driver.wait(60.0)
    assert driver.machine.acts(driver.now)


def test_after_a_disk_that_refused_a_term_nothing_of_it_remains() -> None:
    driver = Driver(3, 1, term=Term(4, 1))
    driver.turn()
    driver.done = driver.machine.cannot_persist(Term(4, 1), driver.now, 1.0)
    assert driver.machine.term == Term(4, 1)
    driver.wait(0.9)
    assert not driver.done
    driver.wait(0.2)
    assert driver.done[0] == PersistTerm(Term(6, 3))


def test_strangers_are_ignored() -> None:
    driver = leader(3, 1)
    driver.forget()
    driver.hear(DatagramKind.COORDINATOR, 99, (50, 99))
    assert not driver.done
    assert driver.machine.acts(driver.now)
