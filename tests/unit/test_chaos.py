"""The pure parts of `booksan chaos`: what is asked for, when, whom, and who is back."""

import fcntl
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from booksan.chaos.kinds import (
    DEFAULT_EVERY,
    TargetKind,
    parse_duration,
    parse_every,
    parse_targets,
)
from booksan.chaos.run import JITTER, Schedule, summary
from booksan.chaos.targets import Strike, candidates
from booksan.chaos.view import (
    ClientEnd,
    ClientProcess,
    ClientVerdict,
    HostView,
    Locks,
    View,
    WorkerView,
)
from booksan.cluster.processes import ProcessId
from booksan.errors import UsageError

ALL = list(TargetKind)


def process(pid: int) -> ProcessId:
    return ProcessId(pid, f"boot/{pid}")


def host(name: str, pid: int, *, leads: bool = False) -> HostView:
    workers = (
        WorkerView("q3-join.0", process(pid + 1)),
        WorkerView("gateway.0", process(pid + 2)),
    )
    return HostView(name, "running", process(pid), leads, f"http://{name}", workers)


def three(**more: object) -> View:
    hosts = (host("alpha", 10), host("beta", 20), host("gamma", 30, leads=True))
    return View(hosts, process(90), **more)  # type: ignore[arg-type]


def strike(
    kind: TargetKind, name: str, at: str | None, *pids: int, until: float | None = None
) -> Strike:
    return Strike(kind, name, at, tuple(map(process, pids)), 0.0, 100.0, until)


def names(kind: TargetKind, view: View, *strikes: Strike, mercy: bool = True) -> list[str]:
    return [one.name for one in candidates(kind, view, strikes, mercy=mercy)]


def never(_url: str, _since: float) -> bool:
    return False


def always(_url: str, _since: float) -> bool:
    return True


# -- what is asked for ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"), [("2s", 2.0), ("500ms", 0.5), ("1.5m", 90.0), ("1h", 3600.0), ("3", 3.0)]
)
def test_durations_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_duration("--for", text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "-1s", "two", "2 days", "1e3", "s"])
def test_what_is_no_duration_is_refused_with_the_option_that_has_it(text: str) -> None:
    with pytest.raises(UsageError, match=r"--for .* is not a duration"):
        parse_duration("--for", text)


def test_targets_are_taken_once_and_in_one_order() -> None:
    assert parse_targets("host, worker,host") == [TargetKind.WORKER, TargetKind.HOST]
    with pytest.raises(UsageError, match="there is no 'leaders'; did you mean 'leader'"):
        parse_targets("leaders")
    with pytest.raises(UsageError, match="names nothing"):
        parse_targets(" , ")


def test_a_cadence_is_for_all_kinds_for_some_or_both() -> None:
    kinds = [TargetKind.WORKER, TargetKind.HOST]
    assert parse_every("2s", kinds) == {TargetKind.WORKER: 2.0, TargetKind.HOST: 2.0}
    assert parse_every("worker=1s", kinds) == {TargetKind.WORKER: 1.0, TargetKind.HOST: 15.0}
    assert parse_every("3s,host=20s", kinds) == {TargetKind.WORKER: 3.0, TargetKind.HOST: 20.0}
    assert parse_every(None, ALL) == DEFAULT_EVERY
    with pytest.raises(UsageError, match="broker is not among the targets"):
        parse_every("broker=9s", kinds)
    with pytest.raises(UsageError, match="not a duration"):
        parse_every("worker=often", kinds)


# -- when ----------------------------------------------------------------------------------------


def moments(
    seed: int, every: dict[TargetKind, float], end: float
) -> list[tuple[float, TargetKind, float]]:
    schedule = Schedule(seed, every, 0.0)
    found = []
    now = 0.0
    while (now := schedule.next_due(now)) < end:
        for kind in schedule.due(now):
            found.append((now, kind, schedule.chance(kind).random()))
            schedule.struck(kind, now)
    return found


def test_the_same_seed_gives_the_same_schedule_and_another_one_another() -> None:
    every = {TargetKind.WORKER: 1.0, TargetKind.HOST: 15.0}
    assert moments(7, every, 300.0) == moments(7, every, 300.0)
    assert moments(7, every, 300.0) != moments(8, every, 300.0)


def test_a_kind_is_hit_about_as_often_as_asked_whatever_others_there_are() -> None:
    alone = moments(7, {TargetKind.HOST: 15.0}, 1500.0)
    beside = moments(7, {TargetKind.WORKER: 1.0, TargetKind.HOST: 15.0}, 1500.0)
    assert alone == [one for one in beside if one[1] is TargetKind.HOST]
    assert 85 <= len(alone) <= 115
    gaps = [b[0] - a[0] for a, b in pairwise(alone)]
    assert min(gaps) >= 15 * JITTER[0]
    assert max(gaps) <= 15 * JITTER[1]


def test_a_strike_without_a_victim_stays_due() -> None:
    schedule = Schedule(1, {TargetKind.HOST: 1.0, TargetKind.WORKER: 100.0}, 0.0)
    assert schedule.due(0.0) == []
    assert schedule.due(50.0) == [TargetKind.HOST]
    assert schedule.due(51.0) == [TargetKind.HOST]
    assert schedule.next_due(51.0) > 51.0
    schedule.struck(TargetKind.HOST, 51.0)
    assert schedule.due(51.1) == []


# -- whom ----------------------------------------------------------------------------------------


def test_each_kind_has_its_own_victims() -> None:
    client = ClientProcess("c1", process(70))
    view = three(clients=(client, ClientProcess("c2", None)))
    assert names(TargetKind.WORKER, view) == [
        f"q3-join.0@{one}" for one in ("alpha", "beta", "gamma")
    ]
    assert names(TargetKind.GATEWAY, view) == [
        f"gateway.0@{one}" for one in ("alpha", "beta", "gamma")
    ]
    assert names(TargetKind.SUPERVISOR, view) == ["alpha", "beta"]
    assert names(TargetKind.LEADER, view) == ["gamma"]
    assert names(TargetKind.HOST, view) == ["alpha", "beta", "gamma"]
    assert names(TargetKind.BROKER, view) == ["broker"]
    assert names(TargetKind.CLIENT, view) == ["c1"]
    assert candidates(TargetKind.CLIENT, view, (), clients=("c2",)) == []


def test_a_host_is_hit_with_all_its_processes_a_supervisor_alone() -> None:
    (alpha, *_) = candidates(TargetKind.HOST, three(), ())
    assert [one.pid for one in alpha.processes] == [10, 11, 12]
    (alpha, _) = candidates(TargetKind.SUPERVISOR, three(), ())
    assert [one.pid for one in alpha.processes] == [10]


def test_what_is_not_back_is_not_hit_again() -> None:
    worker = strike(TargetKind.WORKER, "q3-join.0@alpha", "alpha", 11)
    assert names(TargetKind.WORKER, three(), worker) == ["q3-join.0@beta", "q3-join.0@gamma"]
    assert names(TargetKind.HOST, three(), worker) == ["beta", "gamma"], "it would be hit again"
    beta = strike(TargetKind.SUPERVISOR, "beta", "beta", 20)
    assert names(TargetKind.WORKER, three(), beta) == ["q3-join.0@alpha", "q3-join.0@gamma"]
    assert names(TargetKind.HOST, three(), beta) == ["alpha", "gamma"]
    broker = strike(TargetKind.BROKER, "broker", None, 90)
    assert names(TargetKind.BROKER, three(), broker) == []


def test_the_last_supervisor_that_could_revive_others_is_spared() -> None:
    alpha = strike(TargetKind.HOST, "alpha", "alpha", 10)
    paused = strike(TargetKind.SUPERVISOR, "beta", "beta", 20, until=103.0)
    assert names(TargetKind.LEADER, three(), alpha) == ["gamma"]
    for kind in (TargetKind.LEADER, TargetKind.HOST, TargetKind.SUPERVISOR):
        assert names(kind, three(), alpha, paused) == []
    assert names(TargetKind.LEADER, three(), alpha, paused, mercy=False) == ["gamma"]
    assert names(TargetKind.WORKER, three(), alpha, paused) == ["q3-join.0@gamma"]
    alone = View((host("only", 10, leads=True),))
    assert names(TargetKind.HOST, alone) == []
    assert names(TargetKind.HOST, alone, mercy=False) == ["only"]


def test_a_host_that_lacks_a_worker_is_left_alone() -> None:
    view = three()
    for broken in (WorkerView("q3-join.0", None), WorkerView("q3-join.0", process(11), False)):
        alpha = replace(view.hosts[0], workers=(broken, view.hosts[0].workers[1]))
        assert names(TargetKind.HOST, replace(view, hosts=(alpha, *view.hosts[1:]))) == [
            "beta",
            "gamma",
        ]


# -- who is back ---------------------------------------------------------------------------------


def test_a_worker_is_back_when_another_process_has_its_shard() -> None:
    hit = strike(TargetKind.WORKER, "q3-join.0@alpha", "alpha", 11)
    view = three()
    assert not hit.is_back(view, always, ()), "the report is older than the kill"
    workers = (WorkerView("q3-join.0", process(15), works=False), view.hosts[0].workers[1])
    alpha = replace(view.hosts[0], workers=workers)
    assert not hit.is_back(replace(view, hosts=(alpha,)), always, ())
    alpha = replace(alpha, workers=(WorkerView("q3-join.0", process(15)), workers[1]))
    assert hit.is_back(replace(view, hosts=(alpha,)), never, ())
    assert hit.new_pid == 15


def test_a_host_is_back_when_it_is_whole_and_its_gateway_answers() -> None:
    hit = strike(TargetKind.LEADER, "gamma", "gamma", 30)
    assert not hit.is_back(three(), always, ())
    new = View((host("gamma", 40),))
    assert not hit.is_back(new, never, ())
    assert hit.is_back(new, lambda _, since: since == hit.since, ())
    dead = replace(new.hosts[0], state="dead", supervisor=None, workers=())
    assert not hit.is_back(View((dead,)), always, ())


def test_the_broker_is_back_when_the_gateways_of_unhurt_hosts_answer() -> None:
    hit = strike(TargetKind.BROKER, "broker", None, 90)
    assert not hit.is_back(replace(three(), broker=None), always, ())
    assert not hit.is_back(three(), always, ())
    new = replace(three(), broker=process(91), at=105.0)
    assert not hit.is_back(new, lambda url, _: url != "http://beta", ())
    beta = strike(TargetKind.GATEWAY, "gateway.0@beta", "beta", 22)
    assert hit.is_back(new, lambda url, since: url != "http://beta" and since == 105.0, (beta,))


def test_one_that_was_stopped_is_back_after_it_was_continued_as_the_same_process_or_another() -> (
    None
):
    hit = strike(TargetKind.SUPERVISOR, "alpha", "alpha", 10, until=103.0)
    assert hit.held
    assert not hit.is_back(three(), always, ())
    hit.continued(103.5)
    assert not hit.held
    assert hit.paused
    assert hit.since == 103.5
    assert hit.is_back(three(), always, ())
    assert hit.is_back(View((host("alpha", 50),)), always, ())


def test_a_client_is_back_when_its_command_was_started_again_or_nothing_is_left_of_it() -> None:
    hit = strike(TargetKind.CLIENT, "c1", None, 70)
    assert not hit.is_back(three(clients=(ClientProcess("c1", None),)), never, ())
    assert hit.is_back(three(clients=(ClientProcess("c1", process(71)),)), never, ())
    assert hit.is_back(three(), never, ())


def test_a_client_has_ended_when_nobody_works_on_it_and_the_cluster_agrees() -> None:
    end = ClientEnd("c1", patience=60.0)
    assert not end.is_at_work([])
    assert not end.reached(ClientVerdict.UNKNOWN, 5.0), "it may not have begun yet"
    assert end.reached(ClientVerdict.UNKNOWN, 61.0)
    assert end.is_at_work([ClientProcess("c1", process(70))])
    assert not end.is_at_work([ClientProcess("c1", None)])
    assert not end.reached(None, 99.0)
    assert not end.reached(ClientVerdict.GOING_ON, 99.0)
    assert end.reached(ClientVerdict.UNKNOWN, 6.0)
    assert end.reached(ClientVerdict.ENDED, 6.0)


def test_the_holder_of_a_lock_is_found_by_the_file(tmp_path: Path) -> None:
    path = tmp_path / "client.lock"
    with path.open("w") as file:
        assert Locks.now().holder(path) is None
        fcntl.flock(file, fcntl.LOCK_EX)
        found = Locks.now().holder(path)
        assert found is not None
        assert found.pid == os.getpid()
    assert Locks.now().holder(path) is None
    assert Locks.now().holder(tmp_path / "nobody") is None


def test_the_summary_counts_by_kind_and_names_what_is_missing() -> None:
    back = strike(TargetKind.WORKER, "q3-join.0@alpha", "alpha", 11)
    slow = strike(TargetKind.WORKER, "q3-join.0@beta", "beta", 21)
    paused = strike(TargetKind.WORKER, "q3-join.0@gamma", "gamma", 31, until=103.0)
    gone = strike(TargetKind.HOST, "beta", "beta", 20)
    back.took, slow.took, paused.took = 0.5, 2.5, 1.0
    found = summary([back, slow, paused, gone], 7, 12.0)
    assert found["kills"] == 3
    assert found["pauses"] == 1
    assert found["kinds"]["worker"] == {
        "kills": 2,
        "pauses": 1,
        "median": 1.0,
        "worst": 2.5,
        "not_back": 0,
    }
    assert found["kinds"]["host"]["not_back"] == 1
    assert found["not_back"] == [{"kind": "host", "name": "beta"}]
    assert "broker" not in found["kinds"]
