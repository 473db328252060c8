"""`booksan cluster up` and `down`: all hosts of a topology as background processes."""

import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from booksan.broker.node import end_leftovers
from booksan.cluster import broker
from booksan.cluster.credentials import (
    queues_address,
    read_secret,
    read_secret_also,
    read_token,
    with_prefix,
)
from booksan.cluster.paths import (
    BrokerRecord,
    ClusterRecord,
    HostRecord,
    all_free,
    any_ports,
    locked,
    make_private,
    ports_from,
    ports_of,
    read_record,
    write_record,
)
from booksan.cluster.prepare import (
    HostSetup,
    check_ports,
    host_environment,
    prepare,
    some,
)
from booksan.cluster.processes import MARK, marked, send, spawn, uninterrupted, wait_gone
from booksan.cluster.registry import Starting, waits_for
from booksan.errors import BooksanError, UsageError
from booksan.host.handle import supervisor_command
from booksan.host.logs import LOGS, SUPERVISOR_LOG, size
from booksan.host.status import GENERATION_TIMEOUT, workers_alive
from booksan.membership.revive import STOPPED_FILE, revival_under_way
from booksan.state.readers import unfinished_clients
from booksan.tickets import load_secret
from booksan.topology.model import HostPlan, Topology
from booksan.transport import masked
from booksan_common.files import OPERATOR_TOKEN, room_in, write_private

# `booksan cluster down`: nothing of the cluster survives; its data does unless it is wiped.

#: Seconds from SIGTERM to SIGKILL: more than a supervisor gives its workers.
DRAIN_SECONDS = 10.0
#: Seconds that a revival may take to have killed the old tree and started the new one.
REVIVAL_SECONDS = 2 * GENERATION_TIMEOUT


def stop_hosts(hosts: Iterable[HostRecord]) -> None:
    """All at once drain; what is left after a while is killed, workers with their supervisor."""
    hosts = list(hosts)
    for host in hosts:
        _forbid_revival(Path(host.data_dir))
    for host in hosts:
        _wait_for_revival(Path(host.data_dir))
    alive = [process for host in hosts if (process := host.supervisor())]
    for process in alive:
        send(process, signal.SIGTERM)
        # A stopped one hears nothing else.
        send(process, signal.SIGCONT)
    late = wait_gone(alive, DRAIN_SECONDS)
    for process in late:
        send(process, signal.SIGKILL)
    stuck = wait_gone(late, GENERATION_TIMEOUT)
    if stuck:
        pids = ", ".join(str(process.pid) for process in stuck)
        raise BooksanError(f"the supervisors {pids} were killed and have not ended; look at them")
    for host in hosts:
        _wait_for_workers(Path(host.data_dir))
        host.process = None


def _forbid_revival(data_dir: Path) -> None:
    """A leader that has not heard yet that all are stopped must not start one again."""
    if data_dir.is_dir():
        (data_dir / STOPPED_FILE).touch()


def _wait_for_revival(data_dir: Path) -> None:
    """One that began before it was forbidden may be about to start a supervisor."""
    deadline = time.monotonic() + REVIVAL_SECONDS
    while revival_under_way(data_dir) and time.monotonic() < deadline:
        time.sleep(0.02)


def _wait_for_workers(data_dir: Path) -> None:
    deadline = time.monotonic() + GENERATION_TIMEOUT
    while data_dir.is_dir() and workers_alive(data_dir):
        if time.monotonic() > deadline:
            raise BooksanError(f"workers in {data_dir} have not ended, though they were killed")
        time.sleep(0.02)


def down(directory: Path, *, wipe: bool) -> bool:
    """False if there is no cluster."""
    if not directory.is_dir():
        return False
    with locked(directory):
        record = read_record(directory)
        if record is not None:
            stop_hosts(record.hosts.values())
            if record.broker is not None:
                broker.stop_broker(record.broker)
            write_record(directory, record)
        strays = _end_strays(directory)
        if record is None and not strays:
            return False
        if wipe:
            shutil.rmtree(directory)
    return True


def _end_strays(directory: Path) -> bool:
    """What an `up` started that was killed before it could write it down."""
    strays = marked(directory)
    for process in strays:
        send(process, signal.SIGTERM)
    for process in wait_gone(strays, DRAIN_SECONDS):
        send(process, signal.SIGKILL)
    wait_gone(strays, GENERATION_TIMEOUT)
    end_leftovers(directory / "broker")
    return bool(strays)


# `booksan cluster up`: all hosts of a topology as background processes of this machine.

OPERATOR_TOKEN_FILE = "operator-token"
_DEFAULT_BROKER_PORT = 5672


@dataclass(frozen=True)
class UpOptions:
    with_broker: bool = False
    any_ports: bool = False
    port_base: int | None = None
    #: Seconds until all must be at work.
    wait: float = 60.0


class Start:
    """One `up` of one cluster, under its lock."""

    def __init__(
        self,
        directory: Path,
        topology: Topology,
        options: UpOptions,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`progress` hears what is being started."""
        self.directory = directory
        self.options = options
        self.progress = progress
        known = read_record(directory)
        self.running = (
            {name: one.supervisor() for name, one in known.hosts.items()} if known else {}
        )
        if known is not None:
            _check_same(known, topology, options, running=any(self.running.values()))
            _check_left_out(known, topology)
        self.known = known
        self.topology, self.record = self._plan(topology, known)
        self.environment = {**os.environ, MARK: str(directory)}
        self.started: list[Starting] = []
        self.started_broker = False

    def run(self) -> list[str]:
        """The names of the hosts that were started, all at work."""
        # Before anything is started: `down` must find it, whatever happens to this process.
        write_record(self.directory, self.record)
        try:
            self._start_broker()
            self._start_hosts()
            self._wait_until_ready()
        except BaseException:
            self._undo()
            raise
        return [host.name for host in self.started]

    def _plan(
        self, topology: Topology, known: ClusterRecord | None
    ) -> tuple[Topology, ClusterRecord]:
        ports, broker_port, moved = self._ports(topology, known)
        topology = topology.with_ports(ports)
        wants_broker = self.options.with_broker or (known is not None and known.broker is not None)
        place = known.broker if known and known.broker else None
        if wants_broker and (place is None or not broker.keeper_of(place)):
            place = BrokerRecord(str(self.directory / "broker"), broker_port)
        record = ClusterRecord(
            name=topology.name,
            topology=topology.as_dict(),
            queues=known.queues if known else "",
            moved=moved,
            hosts={host.name: self._host_record(host) for host in topology.hosts.values()},
            broker=place,
            ports=ports,
        )
        return topology, record

    def _ports(
        self, topology: Topology, known: ClusterRecord | None
    ) -> tuple[dict[str, tuple[int, int]], int, bool]:
        """Those of an earlier `up` as long as they serve: the hosts know each other by them."""
        options = self.options
        if known is not None and (known.moved or any(self.running.values())):
            again = options.any_ports and not any(self.running.values())
            fits = known.ports.keys() == topology.hosts.keys() and options.port_base is None
            if fits and not (again and not all_free(known.ports)):
                port = known.broker.port if known.broker else any_ports(topology)[1]
                return known.ports, port, known.moved
        if options.port_base is not None:
            return *ports_from(topology, options.port_base), True
        if options.any_ports:
            return *any_ports(topology), True
        return ports_of(topology), _broker_port(topology), False

    def _host_record(self, host: HostPlan) -> HostRecord:
        data_dir = self.directory / "hosts" / host.name
        process = self.running.get(host.name)
        return HostRecord(host.id, str(host.address), host.url, str(data_dir), process)

    def _start_broker(self) -> None:
        place = self.record.broker
        if place is None or broker.keeper_of(place):
            return
        self.started_broker = True
        self.progress("starts the broker")
        broker.start_broker(place, self.environment, self.options.wait)
        write_record(self.directory, self.record)

    def _start_hosts(self) -> None:
        queues = self._queues()
        self.record.queues = masked(queues)
        self._check_queues()
        missing = [host for host in self.topology.hosts.values() if not self.running.get(host.name)]
        setups = [self._setup(host, queues) for host in missing]
        for setup in setups:
            check_ports(setup)
            prepare(setup)
        write_record(self.directory, self.record)
        given = {**self.environment, OPERATOR_TOKEN: self._operator_token()}
        env = host_environment(given, queues)
        if setups:
            self.progress(f"starts {', '.join(setup.name for setup in setups)}")
        for setup in setups:
            self._start_host(setup, env)

    def _start_host(self, setup: HostSetup, env: dict[str, str]) -> None:
        logs = setup.data_dir / LOGS
        logs.mkdir(exist_ok=True)
        record = self.record.hosts[setup.name]
        starting = Starting(setup.name, record, size(logs / SUPERVISOR_LOG))
        command = supervisor_command(setup.data_dir)
        with uninterrupted():
            record.process = spawn(command, logs / SUPERVISOR_LOG, env, setup.data_dir)
            self.started.append(starting)
            write_record(self.directory, self.record)

    def _setup(self, host: HostPlan, queues: str) -> HostSetup:
        secret = read_secret(os.environ, None) or load_secret(self.directory)
        data_dir = Path(self.record.hosts[host.name].data_dir)
        peers = {
            name: Path(other.data_dir)
            for name, other in self.record.hosts.items()
            if name != host.name
        }
        return HostSetup(
            self.topology,
            host.name,
            host.shards,
            data_dir,
            host.listen,
            secret,
            queues,
            peers,
            also=read_secret_also(os.environ),
            other_ports="stop that, or start the cluster with --any-ports",
        )

    def _queues(self) -> str:
        if self.record.broker is not None:
            return with_prefix(
                str(broker.broker_status(self.record.broker)["url"]), self.topology.name
            )
        return queues_address(self.topology, os.environ, None, self.directory / "spool")

    def _check_queues(self) -> None:
        """Hosts with different queues would never hear of each other."""
        known = self.known
        if known and any(self.running.values()) and known.queues != self.record.queues:
            raise UsageError(
                f"the cluster {known.name} runs with the queues {known.queues}, not with "
                f"{self.record.queues}; stop it first with `booksan cluster down {known.name}`"
            )

    def _operator_token(self) -> str:
        """Kept in a file, so that whoever owns the cluster can act as its operator."""
        path = self.directory / OPERATOR_TOKEN_FILE
        given = read_token(os.environ, OPERATOR_TOKEN)
        if given or not path.exists():
            write_private(path, (given or secrets.token_urlsafe(32)).encode())
        return path.read_text("utf-8")

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + self.options.wait
        waiting = {host.name: host for host in self.started}
        while waiting:
            lacks = {name: waits_for(host) for name, host in waiting.items()}
            waiting = {name: host for name, host in waiting.items() if lacks[name] is not None}
            if waiting and time.monotonic() > deadline:
                name = next(iter(waiting))
                raise BooksanError(
                    f"host {name} was not at work within {self.options.wait:g} s: {lacks[name]} "
                    f"(see {Path(waiting[name].record.data_dir) / LOGS})"
                )
            time.sleep(0.05)

    def _undo(self) -> None:
        """What this `up` started is stopped again; what ran before goes on."""
        with uninterrupted():
            stop_hosts([host.record for host in self.started])
            if self.started_broker and self.record.broker is not None:
                broker.stop_broker(self.record.broker)
            write_record(self.directory, self.record)


def up(
    directory: Path, topology: Topology, options: UpOptions, progress: Callable[[str], None]
) -> tuple[ClusterRecord, str]:
    """The cluster, all of it at work, and what was done for that, in words."""
    with room_in(directory):
        make_private(directory)
    with room_in(directory), locked(directory):
        start = Start(directory, topology, options, progress)
        before = [name for name, process in start.running.items() if process]
        started = start.run()
        if not started:
            done = "runs already"
        elif before:
            done = f"is ready: started {', '.join(started)}; {', '.join(before)} ran already"
        else:
            done = f"is ready: {', '.join(started)}"
        return start.record, done


def _check_same(
    known: ClusterRecord, topology: Topology, options: UpOptions, *, running: bool
) -> None:
    other = ""
    if known.topology != topology.as_dict():
        other = "with another topology"
    elif options.with_broker and known.broker is None:
        other = "without a broker of its own"
    if running and other:
        raise UsageError(
            f"the cluster {known.name} runs {other}; stop it first with "
            f"`booksan cluster down {known.name}`"
        )


def _check_left_out(known: ClusterRecord, topology: Topology) -> None:
    """A host that is no longer in the topology takes its shards away."""
    for name, host in known.hosts.items():
        if name in topology.hosts:
            continue
        clients = sorted({one.client for one in unfinished_clients(Path(host.data_dir))})
        if clients:
            raise UsageError(
                f"{topology.name} has no host {name} any more, but unfinished clients "
                f"({some(clients)}) need its shards in {host.data_dir}; start the cluster with it "
                "until they are done or cancelled"
            )


def _broker_port(topology: Topology) -> int:
    return urlsplit(topology.queues.url).port or _DEFAULT_BROKER_PORT
