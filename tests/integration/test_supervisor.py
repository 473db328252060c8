"""The promises of a host: what dies is restarted, and nothing outlives what it belongs to."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from booksan.errors import BooksanError, UsageError
from booksan.host.config import HostConfig, RestartPolicy, WorkerSpec, write_config
from booksan.host.handle import Host
from booksan.host.status import (
    EXIT_CANNOT_START,
    EXIT_GAVE_UP,
    EXIT_LOCKED,
    STATUS_FILE,
    HostState,
    HostStatus,
    WorkerState,
)

psutil = pytest.importorskip("psutil")

ROOT = Path(__file__).parents[2]
ENV = {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", "POLARS_MAX_THREADS": "1"}
THREE = tuple(WorkerSpec("stage", shard) for shard in range(3))
DEADLINE = 30.0
#: One process more, from which workers are forked.
HAS_SERVER = sys.platform == "linux"
HOST_KEYS = {"pid", "state", "restarts", "workers", "error", "code", "leader", "term", "ready"}
WORKER_KEYS = {"name", "pid", "state", "restarts", "since", "memory", "cpu"}

Starter = Callable[..., Host]
Process = Any  # psutil has no types of its own


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    """Start hosts in the test's directory; none of their processes outlives the test."""
    hosts: list[Host] = []

    def start(entry: str, *, doomed: bool = False, **options: Any) -> Host:
        """`doomed`: the host fails by itself, perhaps before the start has seen it run."""
        configure(tmp_path, entry, **options)
        hosts.append(Host(tmp_path, ENV))
        with suppress(BooksanError) if doomed else nullcontext():
            hosts[-1].start()
        return hosts[-1]

    yield start
    for host in hosts:
        host.stop(timeout=0)


def configure(
    data_dir: Path,
    entry: str,
    *,
    workers: tuple[WorkerSpec, ...] = THREE,
    drain_timeout: float = DEADLINE,
    restart: RestartPolicy | None = None,
    **limits: float,
) -> None:
    function = f"tests.integration.supervisor_entries:{entry}"
    policy = restart or RestartPolicy()
    config = HostConfig(workers, function, drain_timeout, restart=policy)
    write_config(data_dir, replace(config, **limits))


def until(promise: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not promise():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.002)


def status(host: Host) -> HostStatus:
    found = host.status()
    assert found is not None
    return found


def wait_until_ready(host: Host, data_dir: Path) -> dict[str, Process]:
    """Wait until every worker has said that it works; return the processes by name."""

    def ready() -> bool:
        workers = status(host).workers
        return all((data_dir / f"ready.{worker.name}.{worker.pid}").exists() for worker in workers)

    until(ready, "all workers ready")
    return {worker.name: psutil.Process(worker.pid) for worker in status(host).workers}


def fork_server(host: Host) -> Process | None:
    """Where there is one: whatever the supervisor forked that is no worker."""
    workers = {worker.pid for worker in status(host).workers}
    others = [child for child in psutil.Process(host.pid).children() if child.pid not in workers]
    assert len(others) <= 1
    return others[0] if others else None


def wait_for_restarts(host: Host, count: int) -> None:
    until(lambda: status(host).restarts == count, f"{count} restarts")


def assert_all_gone(processes: list[Process]) -> None:
    """Dead ones that nobody has reaped are gone as well: a test has no say over process 1."""

    def gone() -> bool:
        return not any(_lives(process) for process in processes)

    until(gone, "all processes gone")


def _lives(process: Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def exit_code(host: Host) -> int:
    until(lambda: host.poll() is not None, "the supervisor's end")
    code = host.poll()
    assert code is not None
    return code


def supervisor_log(data_dir: Path) -> str:
    """As words: who did what."""
    lines = (data_dir / "logs" / "supervisor.log").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    return "\n".join(f"{event['worker'] or 'host'} {event['event']}" for event in events)


def test_a_killed_worker_is_replaced_and_the_others_stay(start: Starter, tmp_path: Path) -> None:
    host = start("steady")
    before = wait_until_ready(host, tmp_path)

    before["stage.1"].kill()
    wait_for_restarts(host, 1)
    after = wait_until_ready(host, tmp_path)

    assert after["stage.1"].pid != before["stage.1"].pid
    assert after["stage.0"] == before["stage.0"]
    assert after["stage.2"] == before["stage.2"]
    assert status(host).state is HostState.RUNNING
    assert [worker.restarts for worker in status(host).workers] == [0, 1, 0]


def test_kills_from_outside_never_bring_the_host_down(start: Starter, tmp_path: Path) -> None:
    policy = RestartPolicy(max_restarts=2, max_delay=0.05)
    host = start("steady", workers=THREE[:1], restart=policy)

    for count in range(1, 9):
        wait_until_ready(host, tmp_path)["stage.0"].kill()
        wait_for_restarts(host, count)

    wait_until_ready(host, tmp_path)
    assert host.poll() is None
    assert status(host).state is HostState.RUNNING


def test_a_host_leaves_no_zombies(start: Starter, tmp_path: Path) -> None:
    host = start("steady")
    for worker in wait_until_ready(host, tmp_path).values():
        worker.kill()
    wait_for_restarts(host, 3)
    workers = wait_until_ready(host, tmp_path)

    children = psutil.Process(host.pid).children(recursive=True)
    own = {child.pid for child in children if child != fork_server(host)}
    assert own == {worker.pid for worker in workers.values()}

    assert host.stop() == 0
    assert_all_gone(children)
    assert not any(psutil.pid_exists(child.pid) for child in children)


def test_workers_die_with_their_supervisor_and_a_new_one_starts_at_once(
    start: Starter, tmp_path: Path
) -> None:
    host = start("steady")
    for _ in range(3):
        workers = wait_until_ready(host, tmp_path)
        psutil.Process(host.pid).kill()
        host.restart()
        assert_all_gone(list(workers.values()))
        assert status(host).restarts == 0

    wait_until_ready(host, tmp_path)
    assert not (tmp_path / "overlap").exists()


def test_a_new_generation_waits_until_the_last_old_worker_is_gone(tmp_path: Path) -> None:
    configure(tmp_path, "steady")
    hold = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); "
    hold += "print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold, str(tmp_path / "workers.lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as old_worker:
        assert old_worker.stdout is not None
        assert old_worker.stdout.readline() == b"held\n"
        with run_supervisor(tmp_path) as supervisor:
            lock = tmp_path / "host.lock"
            until(lambda: lock.exists() and bool(lock.read_text()), "the host lock")
            assert not (tmp_path / STATUS_FILE).exists()

            old_worker.communicate(b"")
            until((tmp_path / STATUS_FILE).exists, "the start after the old worker's end")
            supervisor.terminate()
            assert supervisor.wait(DEADLINE) == 0


def test_the_tree_ends_when_the_driver_is_killed(tmp_path: Path) -> None:
    configure(tmp_path, "steady")
    script = (
        "import signal, sys, pathlib\n"
        "from booksan.host.handle import Host\n"
        "host = Host(pathlib.Path(sys.argv[1]))\n"
        "host.start()\n"
        "print(host.pid, flush=True)\n"
        "signal.pause()\n"
    )
    driver = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdout=subprocess.PIPE,
        env=os.environ | ENV,
    )
    assert driver.stdout is not None
    supervisor = psutil.Process(int(driver.stdout.readline()))
    until(lambda: len(supervisor.children()) == 3 + HAS_SERVER, "the workers")
    workers = supervisor.children()

    driver.kill()
    driver.communicate()

    assert_all_gone([supervisor, *workers])
    assert json.loads((tmp_path / STATUS_FILE).read_text())["state"] == "stopped"


def test_sigterm_lets_workers_finish_what_they_have_in_hand(start: Starter, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    host = start("slow_to_finish", workers=THREE[:1])
    wait_until_ready(host, tmp_path)

    psutil.Process(host.pid).terminate()
    until((tmp_path / "asked.stage.0").exists, "SIGTERM at the worker")
    until(lambda: status(host).state is HostState.DRAINING, "draining")
    assert status(host).workers[0].state is WorkerState.DRAINING
    (tmp_path / "go").write_bytes(b"go")

    assert exit_code(host) == 0
    assert (tmp_path / "finished.stage.0").exists()
    assert status(host).state is HostState.STOPPED
    assert status(host).workers[0].state is WorkerState.STOPPED
    assert status(host).workers[0].pid is None


def test_ctrl_c_at_the_whole_group_drains_too(start: Starter, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    host = start("slow_to_finish", workers=THREE[:1])
    worker = wait_until_ready(host, tmp_path)["stage.0"]
    assert os.getpgid(worker.pid) == host.pid

    os.killpg(os.getpgid(worker.pid), signal.SIGINT)
    until((tmp_path / "asked.stage.0").exists, "SIGTERM at the worker")
    (tmp_path / "go").write_bytes(b"go")

    assert exit_code(host) == 0
    assert (tmp_path / "finished.stage.0").exists()


def test_ctrl_c_at_the_driver_does_not_reach_the_tree(start: Starter) -> None:
    host = start("steady")
    assert host.pid is not None
    assert os.getsid(host.pid) != os.getsid(0)


def test_a_worker_that_ignores_sigterm_is_killed_after_the_bound(
    start: Starter, tmp_path: Path
) -> None:
    host = start("stubborn", drain_timeout=0.3)
    workers = wait_until_ready(host, tmp_path)

    began = time.monotonic()
    psutil.Process(host.pid).terminate()

    assert exit_code(host) == 0
    assert time.monotonic() - began >= 0.3
    assert_all_gone(list(workers.values()))
    assert status(host).state is HostState.STOPPED
    assert "stage.1 did not end in time" in supervisor_log(tmp_path)


def test_a_second_sigterm_kills_at_once(start: Starter, tmp_path: Path) -> None:
    host = start("stubborn", drain_timeout=10 * DEADLINE)
    workers = wait_until_ready(host, tmp_path)
    supervisor = psutil.Process(host.pid)

    supervisor.terminate()
    until(lambda: status(host).state is HostState.DRAINING, "draining")
    assert all(_lives(worker) for worker in workers.values())
    supervisor.terminate()

    assert exit_code(host) == 0
    assert_all_gone(list(workers.values()))


def test_stop_kills_a_tree_that_does_not_end_in_time(start: Starter, tmp_path: Path) -> None:
    host = start("stubborn", drain_timeout=10 * DEADLINE)
    workers = wait_until_ready(host, tmp_path)

    assert host.stop(timeout=0.1) == -signal.SIGKILL
    assert not any(_lives(worker) for worker in workers.values())


def test_a_crash_loop_ends_the_host_with_the_reason(start: Starter, tmp_path: Path) -> None:
    policy = RestartPolicy(max_restarts=3, max_delay=0.05, healthy_after=DEADLINE)
    host = start("broken", doomed=True, workers=THREE[:2], restart=policy)

    assert exit_code(host) == EXIT_GAVE_UP
    final = status(host)
    assert final.state is HostState.FAILED
    assert final.error is not None
    assert "stage.1 failed more than 3 times" in final.error
    assert "ValueError: the reason of the test" in final.error
    assert [worker.restarts for worker in final.workers] == [0, 3]
    assert {worker.state for worker in final.workers} == {WorkerState.STOPPED}
    assert (tmp_path / "logs" / "stage.1.log").read_text().count("Traceback") == 4


def test_a_worker_that_cannot_start_stops_the_host_at_once(start: Starter) -> None:
    host = start("misconfigured", doomed=True, workers=THREE[:2])
    assert exit_code(host) == EXIT_CANNOT_START
    final = status(host)
    assert final.state is HostState.FAILED
    assert final.error == "stage.1 cannot start: the broker's address is missing"
    assert final.restarts == 0
    assert {worker.pid for worker in final.workers} == {None}


def test_an_entry_that_does_not_exist_is_no_reason_to_loop(start: Starter) -> None:
    host = start("no_such_function", doomed=True)
    assert exit_code(host) == EXIT_CANNOT_START
    error = status(host).error
    assert error is not None
    assert "no_such_function" in error


def test_a_worker_that_ends_by_itself_is_started_again(start: Starter, tmp_path: Path) -> None:
    host = start("ends_once", workers=THREE[:1])
    wait_for_restarts(host, 1)
    wait_until_ready(host, tmp_path)
    assert "stage.0 ended by itself with code 0" in supervisor_log(tmp_path)


def test_a_traceback_is_found_in_the_workers_log_and_nowhere_else(tmp_path: Path) -> None:
    policy = RestartPolicy(max_restarts=1, healthy_after=DEADLINE)
    configure(tmp_path, "broken", workers=THREE[:2], restart=policy)
    supervisor = run_supervisor(tmp_path)
    output, _ = supervisor.communicate(timeout=DEADLINE)

    assert supervisor.returncode == EXIT_GAVE_UP
    event = json.loads((tmp_path / "logs" / "stage.1.log").read_text().splitlines()[0])
    assert (event["worker"], event["event"]) == ("stage.1", "died of an error")
    assert "in broken\n" in event["trace"]
    assert "ValueError: the reason of the test\n" in event["trace"]
    assert b"Traceback" not in output
    assert (tmp_path / "logs" / "stage.0.log").read_text() == ""


def test_a_second_supervisor_is_refused(start: Starter, tmp_path: Path) -> None:
    host = start("steady")
    wait_until_ready(host, tmp_path)
    before = (tmp_path / STATUS_FILE).read_text()

    second = run_supervisor(tmp_path)
    output, _ = second.communicate(timeout=DEADLINE)

    assert second.returncode == EXIT_LOCKED
    assert f"in use by another supervisor (process {host.pid})" in output.decode()
    assert (tmp_path / STATUS_FILE).read_text() == before
    with pytest.raises(UsageError, match="in use by another supervisor"):
        Host(tmp_path, ENV, lock_timeout=0.05).start()
    assert host.poll() is None


def test_a_start_waits_for_the_host_before_it_to_end(start: Starter, tmp_path: Path) -> None:
    first = start("stubborn", drain_timeout=0.5)
    wait_until_ready(first, tmp_path)
    psutil.Process(first.pid).terminate()
    until(lambda: status(first).state is HostState.DRAINING, "draining")

    second = start("steady")

    wait_until_ready(second, tmp_path)
    assert first.poll() == 0


def test_the_status_is_whole_whenever_it_is_read(start: Starter, tmp_path: Path) -> None:
    policy = RestartPolicy(0.001, max_delay=0.001, max_restarts=40, healthy_after=DEADLINE)
    host = start("broken", restart=policy)
    seen = set()
    while host.poll() is None:
        seen.add((tmp_path / STATUS_FILE).read_text())

    reports = [json.loads(text) for text in seen]
    assert len(reports) > 20
    for report in reports:
        assert set(report) == HOST_KEYS
        assert [worker["name"] for worker in report["workers"]] == ["stage.0", "stage.1", "stage.2"]
        for worker in report["workers"]:
            assert set(worker) == WORKER_KEYS


def test_a_bad_host_file_is_reported_by_the_start(tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text('{"workers": [{"stage": "q3-join"}]}')
    host = Host(tmp_path, ENV)
    with pytest.raises(BooksanError, match=r"shard: must be a whole number from 0"):
        host.start()
    assert host.poll() == EXIT_CANNOT_START


def test_a_worker_is_born_clean(start: Starter, tmp_path: Path) -> None:
    host = start("describes_itself", workers=THREE[:1])
    wait_until_ready(host, tmp_path)
    born = json.loads((tmp_path / "description").read_text())

    assert {"SIGINT", "SIGHUP"} <= set(born["ignored"])
    assert {"SIGTERM", "SIGCHLD"} <= set(born["default"])
    assert born["blocked"] == []
    assert born["threads"] == "1"
    log = str(tmp_path / "logs" / "stage.0.log")
    lock = str(tmp_path / "workers.lock")
    assert [born["files"][fd] for fd in "012"] == [os.devnull, log, log]
    others = set(born["files"].values()) - {os.devnull, log, lock}
    assert len(others) == 1, "the pipe for news, and nothing else"
    assert others.pop().startswith("pipe:")
    assert Path(log).read_text() == "said on stdout\n"


def test_a_log_that_grew_too_long_is_begun_anew_under_a_worker_that_writes(
    start: Starter, tmp_path: Path
) -> None:
    host = start("talks", workers=THREE[:1], hang_timeout=8.0)
    wait_until_ready(host, tmp_path)
    log = tmp_path / "logs" / "stage.0.log"
    until(lambda: log.stat().st_size == 0, "an empty log")
    assert log.with_name("stage.0.log.1").stat().st_size == 9 * 1_048_577
    host.stop()
    assert log.read_text() == "the last word\n"


def test_the_supervisor_loads_nothing_heavy(start: Starter, tmp_path: Path) -> None:
    host = start("describes_itself", workers=THREE[:1])
    wait_until_ready(host, tmp_path)
    modules = set(json.loads((tmp_path / "description").read_text())["modules"])

    assert "booksan.supervisor.loop" in modules
    heavy = {"polars", "numpy", "textblob", "nltk", "sqlite_utils", "sqlite3", "typer", "rich"}
    heavy |= {"asyncio", "multiprocessing", "concurrent", "logging"}
    assert modules & heavy == set()


def run_supervisor(data_dir: Path) -> "subprocess.Popen[bytes]":
    """Start one by hand, as an operator would."""
    return subprocess.Popen(
        [sys.executable, "-m", "booksan.supervisor", str(data_dir), "--wait-lock", "0.05"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | ENV,
    )


@pytest.mark.parametrize("how", ["stopped", "silent"])
def test_a_worker_that_hangs_is_killed_and_restarted(
    start: Starter, tmp_path: Path, how: str
) -> None:
    host = start("beats", hang_timeout=2.0)
    before = wait_until_ready(host, tmp_path)
    victim = before["stage.1"]
    if how == "stopped":
        victim.send_signal(signal.SIGSTOP)
    else:
        (tmp_path / f"silence.{victim.pid}").touch()
    wait_for_restarts(host, 1)
    after = wait_until_ready(host, tmp_path)
    assert_all_gone([victim])
    assert after["stage.1"].pid != victim.pid
    assert {name: after[name].pid for name in ("stage.0", "stage.2")} == {
        name: before[name].pid for name in ("stage.0", "stage.2")
    }
    assert "no sign of life" in (tmp_path / "logs/supervisor.log").read_text()


def test_a_supervisor_that_stood_still_does_not_blame_its_workers(
    start: Starter, tmp_path: Path
) -> None:
    """Everything stands still and goes on, as when a laptop sleeps."""
    host = start("beats", hang_timeout=4.0)
    workers = wait_until_ready(host, tmp_path)
    tree = [psutil.Process(host.pid), *workers.values()]
    for process in tree:
        process.suspend()
    time.sleep(6.0)
    tree[0].resume()
    time.sleep(0.3)
    for process in tree[1:]:
        process.resume()
    until(
        lambda: all(worker.memory is not None for worker in status(host).workers),
        "a look at the workers",
    )
    assert status(host).restarts == 0


def test_a_worker_over_its_memory_limit_is_drained_and_restarted(
    start: Starter, tmp_path: Path
) -> None:
    host = start("grows", memory_limit=200e6, hang_timeout=8.0)
    victim = wait_until_ready(host, tmp_path)["stage.1"]
    (tmp_path / f"grow.{victim.pid}").touch()
    wait_for_restarts(host, 1)
    wait_until_ready(host, tmp_path)
    assert (tmp_path / f"drained.stage.1.{victim.pid}").exists()


def test_the_report_tells_what_each_worker_costs(start: Starter, tmp_path: Path) -> None:
    host = start("steady", hang_timeout=4.0)
    wait_until_ready(host, tmp_path)
    until(lambda: all(worker.memory for worker in status(host).workers), "figures")
    assert all(worker.cpu is not None for worker in status(host).workers)
