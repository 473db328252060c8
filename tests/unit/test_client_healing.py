"""What got lost on its way is sent again, by whichever command still waits for the answers."""

import json
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from booksan_client import upload
from tests.unit.client_user import EGGS, Gate, User, until
from tests.unit.fake_gateway import Answer, FakeGateway, Seen, error

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[User]:
    # All stages are asked for at every look, as a terminal does.
    monkeypatch.setattr("booksan_client.display.TOLD", 0.05)
    monkeypatch.setattr("booksan_client.api.CALM", 0.05)
    with FakeGateway() as gateway:
        yield User(tmp_path, gateway)


def numbers(seen: list[Seen]) -> list[int]:
    return [int(each.path.rpartition("/")[2]) for each in seen if "/eggs/" in each.path]


class Hole:
    """Swallows batches and ends of eggs the first time that they come, and tells so or not."""

    def __init__(self, user: User, batches: set[int], *, end: bool = False) -> None:
        self.user = user
        self.batches = set(batches)
        self.end = end

    def __call__(self, seen: Seen) -> Answer | None:
        if seen.path.endswith("/eggs/end") and self.end:
            self.end = False
            return Answer(200, {})
        if seen.method == "PUT" and "/eggs/" in seen.path:
            (number,) = numbers([seen])
            if number in self.batches:
                self.batches.discard(number)
                return Answer(200, {"rows": 1, "rejected": 0})
        return None


def test_all_gaps_that_the_server_names_are_filled_at_once_and_each_once(user: User) -> None:
    lost = {0, 3, *range(5, 18)}
    user.gateway.fault = Hole(user, lost)
    asked = []

    def name_gaps(seen: Seen) -> Answer | None:
        if seen.path.endswith("/eggs/end"):
            user.run.resend = {"eggs": {"batches": [[0, 0], [3, 3], [5, 17]], "end": True}}
        if "stages" in seen.path:
            asked.append(len(numbers(user.gateway.puts)))
            # It still says so after everything has come again, as one that is slow does.
            user.run.waits = len(asked) < 10 or len(set(asked[-5:])) > 1
        return hole(seen)

    hole, user.gateway.fault = user.gateway.fault, name_gaps
    ended = user.submit("--json")
    assert ended.code == 0, ended.err
    sent = numbers(user.gateway.puts)
    batches = len(user.run.batches["eggs"])
    assert sorted(sent) == sorted([*range(batches), *lost])
    assert ended.document["resent"] == len(lost)
    assert f"sent {len(lost)} missing batches of eggs again" in ended.err
    user.check_answers()


def test_what_is_still_lacking_later_is_sent_once_more(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "AGAIN", 0.3)
    times: list[float] = []

    def swallow(seen: Seen) -> Answer | None:
        """Batch 3 comes through at the fourth time."""
        if seen.path.endswith("/eggs/batches/3"):
            times.append(time.monotonic())
            user.run.resend = {"eggs": {"batches": [[3, 3]], "end": False}}
            if len(times) < 4:
                return Answer(200, {"rows": 1, "rejected": 0})
            user.run.resend = {}
        return None

    user.gateway.fault = swallow
    ended = user.submit()
    assert ended.code == 0, ended.err
    assert len(times) == 4
    assert all(later - earlier >= 0.3 for earlier, later in pairwise(times[1:]))
    user.check_answers()


def test_numbers_that_were_never_sent_are_not_made_up(user: User) -> None:
    def ask(seen: Seen) -> Answer | None:
        if seen.path.endswith("/eggs/end"):
            user.run.resend = {"eggs": {"batches": [[1000, 10**15]], "end": False}}
        return None

    user.gateway.fault = ask
    assert user.submit().code == 0
    assert max(numbers(user.gateway.puts)) < EGGS


def test_an_end_that_only_the_home_lost_is_sent_again_without_being_told(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "END_SECONDS", 0.2)
    user.gateway.fault = Hole(user, set(), end=True)
    ended = user.submit()
    assert ended.code == 0, ended.err
    assert "sent the end of eggs again" in ended.err
    ends = [seen for seen in user.gateway.seen if seen.path.endswith("/eggs/end")]
    assert len(ends) == 2
    user.check_answers()


def test_an_end_is_not_repeated_before_its_time(user: User) -> None:
    """A queue may be long; the home shows the end a little later."""
    shown = []

    def slow(seen: Seen) -> Answer | None:
        if seen.path.endswith("/eggs/end"):
            shown.append(time.monotonic())
        if shown and time.monotonic() - shown[0] < 0.5 and seen.method == "GET":
            found = user.run.status(user.id)
            found["sources"]["eggs"]["of_batches"] = None
            return Answer(200, found | {"state": "uploading", "answers": {}})
        return None

    user.gateway.fault = slow
    assert user.submit().code == 0
    assert len(shown) == 1


@pytest.mark.parametrize("told", [True, False])
def test_results_heal_as_submit_does(
    user: User, monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    """The batches with a server that names them, the end with any."""
    monkeypatch.setattr(upload, "END_SECONDS", 0.2)
    lost = set(range(3, 17)) if told else set()
    user.gateway.fault = Hole(user, lost, end=True)
    assert user.submit("--detach").code == 0
    if told:
        user.run.resend = {"eggs": {"batches": [[3, 16]], "end": True}}
    ended = user.call("results", user.id, "--out", str(user.out))
    assert ended.code == 0, ended.err
    assert ("sent 14 missing batches of eggs again" in ended.err) == told
    assert "sent the end of eggs again" in ended.err
    user.check_answers()
    assert not user.leftovers


@pytest.mark.parametrize("change", ["gone", "changed"])
def test_results_say_when_what_got_lost_cannot_be_sent_again(user: User, change: str) -> None:
    user.gateway.fault = Hole(user, {3})
    assert user.submit("--detach").code == 0
    user.run.resend = {"eggs": {"batches": [[3, 3]], "end": False}}
    content = user.eggs.read_text()
    if change == "gone":
        user.eggs.unlink()
    else:
        user.eggs.write_text(content.replace("wren", "wran"))
    looks: list[Seen] = []

    def come_back(seen: Seen) -> Answer | None:
        """It goes on waiting; the file comes back."""
        looks.append(seen)
        if len(looks) == 8:
            user.eggs.write_text(content)
        return None

    user.gateway.fault = come_back
    ended = user.call("results", user.id, "--out", str(user.out))
    assert ended.code == 0, ended.err
    assert ended.err.count(f"what got lost cannot be sent again: {user.eggs}") == 1
    user.check_answers()


def test_an_older_server_that_names_no_gaps_is_helped_when_the_run_is_stalled(user: User) -> None:
    user.gateway.fault = Hole(user, {3, 4})
    assert user.submit("--detach").code == 0
    place = {"stage": "q1-sum", "shard": 0, "sender": "gateway/eggs", "batches": 1}
    user.run.stalled = {"seconds": 130, "where": [place | {"of_batches": 9, "missing": [3, 4]}]}
    ended = user.call("results", user.id, "--out", str(user.out))
    assert ended.code == 0, ended.err
    assert "nothing has moved for 130 s" in ended.err
    user.check_answers()


def test_a_run_that_is_lost_on_the_way_is_begun_anew_under_the_next_generation(user: User) -> None:
    lost: list[str] = []

    def forget(seen: Seen) -> Answer | None:
        if seen.path.endswith("/eggs/batches/9") and not lost:
            lost.append(user.id)
            user.gateway.runs.clear()
            return Answer(200, {"rows": 1, "rejected": 0})
        return None

    user.gateway.fault = forget
    ended = user.submit("--json")
    assert ended.code == 0, ended.err
    assert ended.err.count("the server has lost the run; sending everything again") == 1
    assert user.id == lost[0]
    assert user.run.generation == 1
    new = user.gateway.puts[-len(user.run.batches["eggs"]) :]
    assert {seen.headers["booksan-ticket"] for seen in new} == {user.run.status(user.id)["ticket"]}
    user.check_answers()


def test_the_generation_is_on_disk_before_it_is_used(user: User) -> None:
    assert user.submit("--detach").code == 0
    user.gateway.runs.clear()
    noted: list[dict[str, object]] = []

    def watch(seen: Seen) -> Answer | None:
        if seen.method == "POST" and seen.path == "/v1/clients":
            (state,) = user.state.rglob("client.json")
            noted.append(json.loads(state.read_text()) | {"asked": json.loads(seen.body)})
        return None

    user.gateway.fault = watch
    assert user.submit().code == 0
    (found,) = noted
    assert found["generation"] == 1
    assert found["asked"]["generation"] == 1  # type: ignore[index]
    assert found["ticket"] is None


def test_a_client_that_dies_after_it_began_anew_sends_everything_again(user: User) -> None:
    gate = Gate(5)
    user.gateway.fault = gate
    with user.process() as process:
        until(lambda: gate.waiting == 4)
        user.gateway.runs.clear()
        gate.opened.set()
        until(lambda: any(run.generation == 1 for run in user.gateway.runs.values()))
        process.kill()
    user.gateway.fault = lambda seen: None
    ended = user.submit()
    assert ended.code == 0, ended.err
    assert user.run.generation == 1
    user.check_answers()


def test_a_higher_generation_that_a_status_tells_is_taken(user: User) -> None:
    assert user.submit("--detach").code == 0
    user.run.spec["generation"] = 7
    user.run.batches.clear()
    user.run.ends.clear()
    ended = user.submit()
    assert ended.code == 0, ended.err
    user.check_answers()


def test_a_server_that_loses_every_run_is_given_up(user: User) -> None:
    def forget(seen: Seen) -> Answer | None:
        if seen.path.endswith("/eggs/batches/9"):
            user.gateway.runs.clear()
            return Answer(200, {"rows": 1, "rejected": 0})
        return None

    user.gateway.fault = forget
    ended = user.submit("--json")
    assert ended.code == 5
    assert "the server has lost the run 3 times" in ended.document["error"]
    created = [seen for seen in user.gateway.seen if seen.path == "/v1/clients"]
    assert [json.loads(seen.body).get("generation", 0) for seen in created] == [0, 1, 2]
    user.gateway.fault = lambda seen: None
    assert user.submit().code == 0
    assert user.run.generation == 3


def test_results_of_a_run_that_the_server_lost_keep_what_submit_needs(user: User) -> None:
    assert user.submit("--detach").code == 0
    id = user.id
    user.gateway.runs.clear()
    ended = user.call("results", id, "--out", str(user.out), "--json")
    assert ended.code == 8
    assert "the same submit command sends everything again" in ended.document["error"]
    assert user.submit().code == 0
    assert (user.id, user.run.generation) == (id, 1)
    user.check_answers()


def asked(user: User) -> list[Seen]:
    return [seen for seen in user.gateway.seen if seen.path.startswith(f"/v1/clients/{user.id}")]


def test_every_request_about_a_run_carries_its_ticket_also_in_later_commands(user: User) -> None:
    assert user.submit("--detach").code == 0
    assert user.call("status", user.id).code == 0
    assert user.call("results", user.id, "--out", str(user.out), "--keep").code == 0
    assert user.submit().code == 0
    ticket = user.run.status(user.id)["ticket"]
    assert {seen.headers.get("booksan-ticket") for seen in asked(user)} == {ticket}
    methods = {
        (seen.method, seen.path.partition("?")[0].rpartition("/")[2]) for seen in asked(user)
    }
    assert {("POST", "acknowledge"), ("GET", "q1"), ("GET", user.id)} <= methods


def test_a_cancellation_and_a_resumption_carry_the_ticket(user: User) -> None:
    """With it they reach the home that the run began at, whatever was added since."""
    gate = Gate(3)
    user.gateway.fault = gate
    with user.process() as process:
        until(lambda: gate.waiting == 4)
        process.kill()
    gate.opened.set()
    ticket = user.run.status(user.id)["ticket"]
    begun = len(user.gateway.seen)

    def only_with_ticket(seen: Seen) -> Answer | None:
        there = seen.headers.get("booksan-ticket") == ticket
        about = seen.path.startswith("/v1/clients")
        return error(404, "unknown_client") if about and not there else None

    user.gateway.fault = only_with_ticket
    ended = user.submit("--detach")
    assert ended.code == 0, ended.err
    assert "lost" not in ended.err
    assert not [seen for seen in user.gateway.seen[begun:] if seen.path == "/v1/clients"]
    assert user.call("cancel", user.id).code == 0
    assert user.run.gone == "cancelled"


def test_a_ticket_that_is_not_accepted_any_more_is_replaced(user: User) -> None:
    """The cluster's secret was changed while batches were on their way."""
    gate = Gate(5)
    user.gateway.fault = gate
    with user.process() as process:
        until(lambda: gate.waiting == 4)
        user.run.ticket = "signed anew"

        def check(seen: Seen) -> Answer | None:
            if seen.headers.get("booksan-ticket") not in (None, "signed anew"):
                return error(403, "wrong_ticket")
            return None

        user.gateway.fault = check
        gate.opened.set()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert b"lost" not in err
    user.check_answers()


def test_a_later_command_has_the_ticket_that_replaced_the_first(user: User) -> None:
    assert user.submit("--detach").code == 0
    user.run.ticket = "signed anew"
    user.run.waits = True
    refused = []

    def check(seen: Seen) -> Answer | None:
        if seen.headers.get("booksan-ticket") not in (None, "signed anew"):
            refused.append(seen)
            return error(403, "wrong_ticket")
        return None

    user.gateway.fault = check
    assert user.submit("--detach").code == 0
    assert refused
    refused.clear()
    user.run.waits = False
    assert user.call("results", user.id, "--out", str(user.out)).code == 0
    assert not refused
