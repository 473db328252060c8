"""The same `submit` ends with the answers, whatever was killed, and says so when it cannot."""

import json
import re
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from booksan_client.state import known_clients
from tests.unit.client_user import EGGS, PATIENCE, Gate, User, until
from tests.unit.fake_gateway import REJECTED, Answer, FakeGateway, Seen, error

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    with FakeGateway() as gateway:
        yield User(tmp_path, gateway)


def test_answers_are_written_and_nothing_is_left(user: User) -> None:
    ended = user.submit("--json")
    assert ended.code == 0, ended.err
    found = ended.document
    assert found["id"] == user.id
    assert re.fullmatch(r"birds-[0-9a-f]{10}", user.id)
    assert found["answers"] == {"q1": 2}
    assert found["rows"] == {"nests": 2, "eggs": EGGS}
    assert found["params"] == {"q1.top": 3, "q1.share": 0.5, "q1.kind": "any"}
    assert (found["resumed"], found["resent"], found["detached"]) == (False, 0, False)
    assert found["files"] == {"q1": str(user.out / "q1.csv")}
    user.check_answers()
    assert user.run.gone == "done"
    assert not user.leftovers
    assert len(user.gateway.puts) == len({seen.path for seen in user.gateway.puts})


def test_a_person_gets_the_answers_as_tables_and_one_line(user: User) -> None:
    ended = user.submit()
    assert "heron" in ended.out
    assert "q1: eggs" in ended.out
    assert ended.err.count("\n") == 1
    assert ended.err.startswith("booksan: 2 nests, 40 eggs, ")
    assert f"the answers are in {user.out}" in ended.err
    assert "\x1b" not in ended.out + ended.err


def test_every_request_carries_the_ticket_and_the_secret_that_nobody_else_may_read(
    user: User,
) -> None:
    gate = Gate(1)
    user.gateway.fault = gate
    with user.process() as process:
        until(lambda: gate.waiting)
        process.kill()
    gate.opened.set()
    (state,) = user.state.rglob("client.json")
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.parent.stat().st_mode) == 0o700
    secret = json.loads(state.read_text())["secret"]
    assert len(secret) >= 43
    for seen in user.gateway.puts:
        assert seen.headers["booksan-secret"] == secret
        assert seen.headers["booksan-ticket"] == user.run.status(user.id)["ticket"]
        assert seen.headers["booksan-permit"] == (
            "eggs.key" if "/eggs/" in seen.path else "nests.key"
        )
    ended = user.submit()
    assert secret not in ended.out + ended.err


def test_after_kill_9_the_same_command_sends_only_what_was_not_known_to_be_taken(
    user: User,
) -> None:
    gate = Gate(5)
    user.gateway.fault = gate
    with user.process() as process:
        until(lambda: gate.waiting == 4)
        process.kill()
    gate.opened.set()
    before = len(user.gateway.puts)
    ended = user.submit("--json")
    assert ended.code == 0, ended.err
    assert ended.document["resumed"] is True
    assert ended.document["id"] == user.id
    # Four were on their way; one more may have been noted and not yet sent, or not noted as taken.
    assert 4 <= ended.document["resent"] <= 6
    again = len(user.gateway.puts) - before
    assert again < len(user.run.batches["eggs"])
    user.check_answers()
    assert not user.leftovers


def test_ctrl_c_stops_and_the_same_command_goes_on(user: User) -> None:
    gate = Gate(3)
    user.gateway.fault = gate
    with user.process("--json") as process:
        until(lambda: gate.waiting == 4)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    gate.opened.set()
    assert process.returncode == 130
    words = "interrupted; the same command goes on where it was"
    assert json.loads(out) == {"error": words, "exit_code": 130}
    assert err.decode() == f"booksan: {words}\n"
    assert user.submit().code == 0
    user.check_answers()


def test_a_file_that_changed_is_refused_and_new_begins_anew_and_cancels_the_old_run(
    user: User,
) -> None:
    assert user.submit("--detach").code == 0
    old = user.id
    user.eggs.write_text("Nest,Size\nwren,1\n")
    ended = user.submit("--json")
    assert ended.code == 3
    assert ended.document["error"].startswith(f"{user.eggs}: has changed since its upload")
    assert "--new" in ended.document["error"]
    assert user.submit("--new").code == 0
    assert user.gateway.runs.pop(old).gone == "cancelled"
    user.check_answers()
    assert not user.leftovers


def test_a_second_process_for_the_same_client_is_refused(user: User) -> None:
    gate = Gate(1)
    user.gateway.fault = gate
    with user.process() as process:
        until(lambda: gate.waiting)
        ended = user.submit("--json")
        assert ended.code == 2
        assert "another booksan is working on this client" in ended.document["error"]
        gate.opened.set()
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


@pytest.mark.parametrize("how", ["cancelled", "expired"])
def test_a_run_that_is_gone_is_told_and_the_next_command_begins_anew(how: str, user: User) -> None:
    assert user.submit("--detach").code == 0
    user.run.gone = how
    ended = user.submit("--json")
    assert ended.code == 8
    assert f"is gone at the server ({how})" in ended.document["error"]
    assert not user.leftovers
    user.gateway.runs.clear()
    assert user.submit().code == 0
    user.check_answers()


def test_a_run_that_failed_is_told_again_until_a_new_one_is_begun(user: User) -> None:
    assert user.submit("--detach").code == 0
    user.run.failed = "the moon is full"
    for _ in range(2):
        ended = user.submit("--json")
        assert ended.code == 5
        assert ended.document["error"].startswith("the moon is full; --new begins a new run")
    assert user.submit("--new").code == 0
    assert not user.leftovers


@pytest.mark.parametrize("how", ["done", "expired", "cancelled"])
def test_an_end_between_the_answers_and_the_acknowledgement_asks_for_no_second_run(
    user: User, how: str
) -> None:
    def lost(seen: Seen) -> Answer | None:
        if seen.path.endswith("/acknowledge"):
            user.run.gone = how
            return error(403, "lost")
        return None

    user.gateway.fault = lost
    assert user.submit().code == 7
    user.gateway.fault = lambda seen: None
    ended = user.submit("--json")
    assert ended.code == 0, ended.err
    assert ended.document["answers"] == {"q1": 2}
    assert "the answers had been written already" in ended.err
    assert not user.leftovers


def test_answers_that_are_written_count_though_the_server_lost_the_run_before_it_heard_so(
    user: User,
) -> None:
    def lost(seen: Seen) -> Answer | None:
        return error(404, "unknown_client") if seen.path.endswith("/acknowledge") else None

    user.gateway.fault = lost
    ended = user.submit()
    assert ended.code == 0, ended.err
    user.check_answers()


def test_a_server_that_lost_the_run_gets_everything_again(user: User) -> None:
    gate = Gate(5)
    user.gateway.fault = gate
    with user.process() as process:
        until(lambda: gate.waiting == 4)
        process.kill()
    user.gateway.runs.clear()
    gate.opened.set()
    user.gateway.fault = lambda seen: None
    ended = user.submit()
    assert ended.code == 0, ended.err
    assert "the server has lost the run" in ended.err
    user.check_answers()


def test_a_server_that_lost_the_run_gets_everything_again_though_its_answer_is_lost(
    user: User,
) -> None:
    """The run is begun anew, and nobody hears of it: the next try finds it there."""
    gate = Gate(5)
    user.gateway.fault = gate
    with user.process() as process:
        until(lambda: gate.waiting == 4)
        process.kill()
    user.gateway.runs.clear()
    gate.opened.set()

    def unheard(seen: Seen) -> Answer | None:
        if seen.method == "POST" and seen.path == "/v1/clients":
            user.gateway.fault = lambda seen: None
            user.gateway.answer(seen)
            return Answer(0)
        return None

    user.gateway.fault = unheard
    ended = user.submit()
    assert ended.code == 0, ended.err
    assert "the server has lost the run" in ended.err
    user.check_answers()


def test_batches_that_got_lost_are_sent_again_when_the_run_is_stalled(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("booksan_client.display.TOLD", 0.05)
    dropped: list[str] = []

    def drop(seen: Seen) -> Answer | None:
        if seen.path.endswith("/eggs/batches/3") and not dropped:
            dropped.append(seen.path)
            place = {"stage": "q1-sum", "shard": 0, "sender": "gateway/eggs", "batches": 1}
            place |= {"of_batches": 9, "missing": [3]}
            user.run.stalled = {"seconds": 130, "where": [place]}
            return Answer(200, {"rows": 1, "rejected": 0})
        return None

    user.gateway.fault = drop
    ended = user.submit("--json")
    assert ended.code == 0, ended.err
    assert "nothing has moved for 130 s: q1-sum.0 has 1 of 9 batches of gateway/eggs" in ended.err
    assert ended.document["resent"] == 1
    user.check_answers()


def test_an_end_that_a_stage_lacks_is_sent_again_when_the_run_is_stalled(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("booksan_client.display.TOLD", 0.05)
    ends: list[str] = []

    def lose(seen: Seen) -> Answer | None:
        """The home has the end; a stage, and so the answer, waits for it."""
        if seen.path.endswith("/eggs/end"):
            ends.append(seen.path)
            place = {"stage": "q1-sum", "shard": 0, "sender": "gateway/eggs", "batches": EGGS}
            place |= {"of_batches": None, "missing": []}
            user.run.stalled = {"seconds": 130, "where": [place]} if len(ends) == 1 else None
            user.run.waits = len(ends) == 1
        return None

    user.gateway.fault = lose
    ended = user.submit()
    assert ended.code == 0, ended.err
    assert len(ends) == 2
    user.check_answers()


def test_rejected_rows_are_listed_and_too_many_end_the_run(user: User) -> None:
    user.eggs.write_text("Nest,Size\nbad\nwren,1\n")
    ended = user.submit("--max-rejected", "0")
    assert ended.code == 4
    assert "1 row was rejected, 0 allowed (--max-rejected)" in ended.err
    assert (user.out / "rejected.csv").read_bytes() == REJECTED
    ended = user.submit("--max-rejected", "1", "--json")
    assert ended.code == 0
    assert ended.document["resumed"] is True
    assert ended.document["files"]["rejected"] == str(user.out / "rejected.csv")


def test_batches_can_travel_compressed(user: User) -> None:
    assert user.submit("--compress", "gzip").code == 0
    assert all(seen.headers["content-encoding"] == "gzip" for seen in user.gateway.puts)
    user.check_answers()


def test_batches_go_to_all_servers_and_a_server_that_dies_is_not_missed(user: User) -> None:
    with FakeGateway(user.gateway.runs) as other:
        user.env["BOOKSAN_SERVER"] = f"{user.gateway.url}, {other.url}"
        other.fault = lambda seen: Answer(0) if len(other.puts) > 5 else None
        ended = user.submit()
        assert ended.code == 0, ended.err
        assert len(other.puts) > 5
        assert user.gateway.puts
    user.check_answers()


def test_a_detached_run_is_watched_fetched_and_forgotten(user: User) -> None:
    ended = user.submit("--detach", "--id", "my-run")
    assert ended.code == 0, ended.err
    assert ended.out == "my-run\n"
    assert not user.out.exists() or not list(user.out.iterdir())
    found = user.call("status", "--json").document
    assert [(each["id"], each["phase"]) for each in found["clients"]] == [("my-run", "uploaded")]
    assert "ticket" not in json.dumps(found)
    shown = user.call("status", "my-run").out
    assert "q1-sum" in shown
    assert user.call("status", "my-run", "--watch", "--json").document["state"] == "done"
    words = ("results", "my-run", "--out", str(user.out))
    assert user.call(*words, "--keep", "--json").document["kept"] is True
    assert user.run.gone is None
    assert user.call(*words).code == 0
    user.check_answers()
    assert user.run.gone == "done"
    assert not user.leftovers


@pytest.mark.parametrize(("how", "code"), [("done", 0), ("cancelled", 8)])
def test_a_watched_run_that_is_fetched_before_the_last_look_has_ended_well(
    user: User, how: str, code: int
) -> None:
    assert user.submit("--detach").code == 0

    def seen_once_at_work(seen: Seen) -> Answer | None:
        if "stages" in seen.path and user.run.gone is None:
            user.run.gone = how
            return Answer(200, user.run.status(user.id) | {"state": "working"})
        return None

    for form in ((), ("--json",)):
        user.run.gone = None
        user.gateway.fault = seen_once_at_work
        ended = user.call("status", user.id, "--watch", *form)
        assert ended.code == code, ended.err
        if how == "done" and form:
            assert (ended.document["state"], ended.document["how"]) == ("gone", "done")
        elif how == "done":
            assert ended.out == f"{user.id}: birds, done; its answers were fetched\n"


def test_results_of_an_upload_that_is_not_complete_are_refused(user: User) -> None:
    gate = Gate(1)
    user.gateway.fault = gate
    with user.process() as process:
        until(lambda: gate.waiting)
        process.kill()
    gate.opened.set()
    ended = user.call("results", user.id, "--out", str(user.out), "--json")
    assert ended.code == 2
    assert "the same submit command goes on with it" in ended.document["error"]
    assert user.leftovers


def test_a_cancelled_run_is_gone_here_and_there(user: User) -> None:
    assert user.submit("--detach").code == 0
    ended = user.call("cancel", user.id, "--json")
    assert ended.document == {"id": user.id, "how": "cancelled", "exit_code": 0}
    assert not user.leftovers
    ended = user.call("status", user.id, "--json")
    assert ended.code == 2
    assert "no client" in ended.document["error"]


def test_the_operator_lists_all_clients_and_others_do_not(user: User) -> None:
    ended = user.call("list", "--json")
    assert ended.code == 2
    assert "operator's token is needed" in ended.document["error"]
    assert user.submit("--detach", "--id", "mine").code == 0
    user.env["BOOKSAN_OPERATOR_TOKEN"] = "op"
    found = user.call("list", "--json").document
    assert [each["id"] for each in found["clients"]] == ["mine"]
    assert user.gateway.seen[-1].headers["authorization"] == "Bearer op"
    assert "mine" in user.call("list").out


def test_a_wrong_token_is_told_and_leaves_nothing(user: User) -> None:
    user.gateway.fault = lambda seen: error(403, "wrong_token")
    ended = user.submit("--json")
    assert ended.code == 7
    assert ended.document["error"] == "it is wrong_token"
    assert not user.leftovers


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--set", "q1.top=many"], "q1.top must be a whole number, not 'many'"),
        (["--set", "q1.share=2"], "q1.share must be between -inf and 1, not 2"),
        (["--set", "q9=1"], "birds has no parameter 'q9'; known: q1.kind, q1.share, q1.top"),
        (["--set", "q1.top"], "--set takes name=value"),
        (["--format", "xml"], "no format 'xml'; known: csv, json, parquet"),
        (["--compress", "lzma"], "no compression 'lzma'; known: gzip, none"),
        (["--id", "No Id"], "client id 'No Id' is not usable"),
        (["--server", "nowhere"], "'nowhere' is not a server's address"),
        (["--token-file", "/nonexistent"], "/nonexistent: the token cannot be read"),
    ],
)
def test_an_impossible_request_is_refused_with_one_line(
    words: list[str], says: str, user: User
) -> None:
    ended = user.submit("--json", *words)
    assert ended.code == 2
    assert says in ended.document["error"]
    assert ended.err == f"booksan: {ended.document['error']}\n"
    assert not user.leftovers
    assert not user.gateway.runs


def test_without_a_place_for_the_answers_nothing_is_begun(user: User) -> None:
    ended = user.call("submit", "birds", str(user.nests), str(user.eggs), "--json")
    assert ended.code == 2
    assert "--out" in ended.document["error"]
    ended = user.call("submit", "birds", str(user.nests), "--out", str(user.out), "--json")
    assert ended.document["error"] == (
        f"birds takes 2 files in this order: nests (nests.csv), eggs (eggs.csv); 1 given: "
        f"{user.nests}"
    )
    ended = user.call("submit", "fish", str(user.nests), "--out", str(user.out), "--json")
    assert ended.code == 2
    assert ended.document["error"] == "no data set 'fish'; known: birds (those of the server)"


def test_an_unusable_file_is_refused_before_anything_is_begun(user: User) -> None:
    user.eggs.write_text("Nest;Size\nwren;1\n")
    ended = user.submit("--json")
    assert ended.code == 3
    assert f"{user.eggs}: missing column" in ended.document["error"]
    assert "separated by ';': it must be ','" in ended.document["error"]
    user.eggs.write_text("Name\nwren\n")
    assert "looks like the file of 'nests', not of 'eggs'" in user.submit().err
    assert not user.leftovers
    assert not user.gateway.runs


def test_other_parameters_make_another_client(user: User) -> None:
    assert user.submit("--detach").code == 0
    assert user.submit("--detach", "--set", "q1.top=5").code == 0
    assert len(user.gateway.runs) == 2
    assert user.submit("--detach", "--json").document["resumed"] is True


def test_an_id_is_used_for_one_run_at_a_time(user: User) -> None:
    assert user.submit("--detach", "--id", "mine").code == 0
    ended = user.submit("--detach", "--id", "mine", "--set", "q1.top=5", "--json")
    assert ended.code == 2
    assert "client mine is another run of yours" in ended.document["error"]
    ended = user.submit("--detach", "--id", "yours", "--json")
    assert ended.code == 2
    assert "are being worked on as client mine" in ended.document["error"]


def test_known_clients_are_those_of_this_user(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    assert user.submit("--detach", "--id", "mine").code == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(user.state))
    assert [state.id for _, state in known_clients()] == ["mine"]
    assert user.call("status").out.count("mine") == 1


def test_a_client_goes_on_when_the_cluster_drops_the_secret_that_signed_its_ticket(
    user: User,
) -> None:
    puts: list[str] = []

    def fault(seen: Seen) -> Answer | None:
        if seen.method == "PUT":
            puts.append(seen.path)
        run = next(iter(user.gateway.runs.values()), None)
        if run is not None and len(puts) == 10:
            run.key = "new"
        headers = {name.lower(): value for name, value in seen.headers.items()}
        for name, status, code in [
            ("booksan-ticket", 403, "wrong_ticket"),
            ("booksan-permit", 409, "not_yet"),
        ]:
            if run is not None and name in headers and not headers[name].endswith(run.key):
                return error(status, code)
        return None

    user.gateway.fault = fault
    ended = user.submit("--json")
    assert ended.code == 0, ended.err
    user.check_answers()
    assert "lost" not in ended.err
    assert user.run.key == "new"


def test_a_ticket_that_is_signed_anew_is_not_another_run(user: User) -> None:
    ended = user.submit("--detach")
    assert ended.code == 0, ended.err
    user.run.key = "new"
    sent = [seen.path for seen in user.gateway.seen if seen.method == "PUT"]
    ended = user.submit()
    assert ended.code == 0, ended.err
    assert "lost" not in ended.err
    user.check_answers()
    assert [seen.path for seen in user.gateway.seen if seen.method == "PUT"] == sent
