"""`booksan cluster up`: all hosts of a topology as background processes of this machine."""

import os
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from booksan.cluster import broker
from booksan.cluster.credentials import (
    OPERATOR_TOKEN,
    queues_address,
    read_secret,
    read_secret_also,
    read_token,
    with_prefix,
)
from booksan.cluster.down import stop_hosts
from booksan.cluster.health import Starting, waits_for
from booksan.cluster.places import locked, make_private, write_private
from booksan.cluster.ports import all_free, any_ports, ports_from, ports_of, why_taken
from booksan.cluster.prepare import (
    HostSetup,
    host_environment,
    prepare,
    supervisor_command,
)
from booksan.cluster.processes import MARK, spawn, uninterrupted
from booksan.cluster.record import (
    BrokerRecord,
    ClusterRecord,
    HostRecord,
    read_record,
    write_record,
)
from booksan.cluster.unfinished import unfinished_clients
from booksan.cluster.versions import some
from booksan.errors import BooksanError, UsageError
from booksan.files import room_in
from booksan.supervisor.logs import LOGS, SUPERVISOR_LOG, size
from booksan.tickets import load_secret
from booksan.topology.model import HostPlan, Topology
from booksan.transport.address import masked

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

    def __init__(self, directory: Path, topology: Topology, options: UpOptions) -> None:
        self.directory = directory
        self.options = options
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
        broker.start_broker(place, self.environment, self.options.wait)
        write_record(self.directory, self.record)

    def _start_hosts(self) -> None:
        queues = self._queues()
        self.record.queues = masked(queues)
        self._check_queues()
        missing = [host for host in self.topology.hosts.values() if not self.running.get(host.name)]
        setups = [self._setup(host, queues) for host in missing]
        for host, setup in zip(missing, setups, strict=True):
            _check_ports(host)
            prepare(setup)
        write_record(self.directory, self.record)
        given = {**self.environment, OPERATOR_TOKEN: self._operator_token()}
        env = host_environment(given, queues)
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
        neighbours = {
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
            neighbours,
            also=read_secret_also(os.environ),
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
    directory: Path, topology: Topology, options: UpOptions, say: Callable[[str], None]
) -> ClusterRecord:
    with room_in(directory):
        make_private(directory)
    with room_in(directory), locked(directory):
        start = Start(directory, topology, options)
        before = [name for name, process in start.running.items() if process]
        started = start.run()
        if not started:
            say(f"the cluster {topology.name} runs already")
        elif before:
            say(f"started {', '.join(started)}; {', '.join(before)} ran already")
        else:
            say(f"the cluster {topology.name} runs: {', '.join(started)}")
        return start.record


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


def _check_ports(host: HostPlan) -> None:
    wanted = ((host.address, socket.SOCK_DGRAM), (host.listen, socket.SOCK_STREAM))
    for address, kind in wanted:
        why = why_taken(address, kind)
        if why is not None:
            raise UsageError(
                f"host {host.name} cannot use {address}: {why}; stop what uses it, or start the "
                "cluster with --any-ports"
            )


def _broker_port(topology: Topology) -> int:
    return urlsplit(topology.queues.url).port or _DEFAULT_BROKER_PORT
