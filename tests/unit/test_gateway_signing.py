"""A word between gateways is good for one call, one receiver, and once."""

from dataclasses import replace

import pytest

from booksan.gateway import access as module
from booksan.gateway.access import CHALLENGE_HEADER, Call, CallSigner, Vouched
from booksan.gateway.errors import Problem

KEY, OTHER = b"k" * 32, b"o" * 32
CALL = Call("GET", "/v1/clients/a?stages=true", "beta:7300")
SAID = Vouched(operator=True, owner="f" * 64, body="0" * 64)


def code_of(receiver: CallSigner, signed: str, call: Call = CALL) -> str:
    with pytest.raises(Problem) as refused:
        receiver.check(signed, call)
    return refused.value.code


def test_what_is_vouched_for_arrives() -> None:
    receiver = CallSigner((KEY,))
    assert receiver.check(CallSigner((KEY,)).sign(CALL, SAID, receiver.challenge()), CALL) == SAID


@pytest.mark.parametrize("what", ["method", "path", "receiver"])
def test_it_is_good_for_its_call_alone(what: str) -> None:
    receiver = CallSigner((KEY,))
    signed = CallSigner((KEY,)).sign(CALL, SAID, receiver.challenge())
    assert code_of(receiver, signed, replace(CALL, **{what: "DELETE"})) == "wrong_cluster"


def test_nothing_of_it_can_be_changed() -> None:
    receiver = CallSigner((KEY,))
    fields = CallSigner((KEY,)).sign(CALL, SAID, receiver.challenge()).split(",")
    for place in range(len(fields)):
        changed = [*fields[:place], "0" + fields[place][1:] + "1", *fields[place + 1 :]]
        assert code_of(receiver, ",".join(changed)) == "wrong_cluster"
    for wrong in ("", ",", ",,,,,", "x", ",".join(fields[1:]), ",".join([*fields, ""])):
        assert code_of(receiver, wrong) == "wrong_cluster"


def test_it_is_good_once() -> None:
    receiver = CallSigner((KEY,))
    signed = CallSigner((KEY,)).sign(CALL, SAID, receiver.challenge())
    receiver.check(signed, CALL)
    assert code_of(receiver, signed) == "stale_word"


def test_it_is_worth_nothing_in_another_life_or_elsewhere() -> None:
    signed = CallSigner((KEY,)).sign(CALL, SAID, CallSigner((KEY,)).challenge())
    assert code_of(CallSigner((KEY,)), signed) == "stale_word"


def test_it_grows_old_whatever_the_clocks_say(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("booksan.gateway.access.time.monotonic", lambda: now)
    receiver, sender = CallSigner((KEY,)), CallSigner((KEY,))
    early, late = (sender.sign(CALL, SAID, receiver.challenge()) for _ in range(2))
    now += module.CHALLENGE_SECONDS
    assert receiver.check(early, CALL) == SAID
    now += module.CHALLENGE_SECONDS
    assert code_of(receiver, late) == "stale_word"
    assert code_of(receiver, early) == "stale_word"
    fresh = receiver.stale().headers[CHALLENGE_HEADER]
    assert receiver.check(sender.sign(CALL, SAID, fresh), CALL) == SAID


def test_a_second_key_is_accepted_and_a_strange_one_is_not() -> None:
    receiver = CallSigner((KEY, OTHER))
    for key in (KEY, OTHER):
        assert (
            receiver.check(CallSigner((key,)).sign(CALL, SAID, receiver.challenge()), CALL) == SAID
        )
    assert code_of(receiver, CallSigner((b"x" * 32,)).sign(CALL, SAID, receiver.challenge())) == (
        "wrong_cluster"
    )
