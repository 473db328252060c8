"""One RabbitMQ node: started, stopped, killed, kept running; and what is left of one."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import psutil

from booksan.broker import tied
from booksan.broker.files import (
    MARK,
    Credentials,
    Ports,
    environment,
    free_ports,
    is_free,
    load_credentials,
    log_tail,
    make_directories,
    require_epmd,
    require_server,
    speaks_amqp,
    write_config,
    write_private,
)
from booksan.errors import BooksanError, UsageError
from booksan_common.backoff import Backoff
from booksan_common.commands import heed
from booksan_common.files import try_lock

# Processes of a node whose keeper is gone.

#: Seconds that a killed process may take to be gone: it may sit in an fsync.
GONE_SECONDS = 20.0


def end_leftovers(directory: Path) -> None:
    """Kills what still runs in the directory: two nodes would ruin each other's data."""
    processes = list(find_leftovers(directory))
    for process in processes:
        # It may end by itself meanwhile, which is as good.
        if process.is_running():
            _kill(process)
    _, alive = psutil.wait_procs(processes, timeout=GONE_SECONDS)
    if alive:
        pids = ", ".join(str(process.pid) for process in alive)
        raise BooksanError(f"processes {pids} of the broker in {directory} cannot be ended")


def find_leftovers(directory: Path) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        try:
            marked = process.environ().get(MARK) == str(directory)
        except (psutil.Error, OSError):
            # Gone, or of another user, whose processes are not ours to end.
            continue
        if marked:
            yield process


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return


# One RabbitMQ node in a directory of its own: started, stopped, killed, started again.

log = logging.getLogger("booksan.broker")

#: Seconds that a node may take to answer: five on an idle machine, more with full queues.
START_SECONDS = 120.0
#: Seconds for an orderly end before it is killed.
STOP_SECONDS = 30.0
#: Seconds for an answer of rabbitmqctl, which starts an Erlang machine of its own.
CONTROL_SECONDS = 60.0
#: Seconds between two looks whether it answers.
LOOK_SECONDS = 0.1


class Broker:
    """Start it from the main thread: on Linux the node dies with the thread that started it."""

    def __init__(self, directory: Path, port: int = 0, name: str | None = None) -> None:
        self.directory = directory.absolute()
        #: 0 until the first start, if none is given; then always the same.
        self.port = port
        # The data belongs to the name. The port mapper is private, so no two can clash.
        self._node_name = f"{name or 'booksan'}@localhost"
        self._variables: dict[str, str] = {}
        self._credentials: Credentials | None = None
        self._lock: int | None = None
        self._node: subprocess.Popen[bytes] | None = None
        self._epmd: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        if self._credentials is None:
            raise BooksanError(f"the broker in {self.directory} was never started")
        user, password = self._credentials
        return f"amqp://{user}:{password}@127.0.0.1:{self.port}/"

    @property
    def pid(self) -> int | None:
        """The process of the Erlang machine, while it runs."""
        if self._node is None or self._node.poll() is not None:
            return None
        return _machine(self._node.pid)

    @property
    def held(self) -> bool:
        """Whether the directory is ours: from the start of the node to its stop."""
        return self._lock is not None

    def start(self) -> None:
        """Returns when it answers; an error tells the end of its log."""
        if self.pid is not None:
            return
        server, epmd = require_server(), require_epmd()
        make_directories(self.directory)
        self._take_lock()
        try:
            self._reap()
            end_leftovers(self.directory)
            self._prepare()
            self._launch(server, epmd)
            self._wait_until_it_answers()
        except BaseException:
            self.kill()
            self._release_lock()
            raise

    def stop(self) -> None:
        """Ends it in order, or by force when that takes too long."""
        if self._signal(signal.SIGTERM) and self._node is not None:
            try:
                self._node.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                log.warning("the broker in %s does not end: it is killed", self.directory)
        self.kill()
        self._release_lock()

    def kill(self) -> None:
        """Kills the node with SIGKILL; start brings it back with the same port and data."""
        self._signal(signal.SIGKILL)
        self._reap()

    def control(self, *words: str) -> str:
        """What rabbitmqctl answers to these words."""
        program = require_server().with_name("rabbitmqctl")
        done = subprocess.run(
            [str(program), "--node", self._node_name, *words],
            cwd=self.directory,
            env=self._variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CONTROL_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise BooksanError(f"rabbitmqctl {words[0]} failed: {done.stdout}{done.stderr}")
        return done.stdout

    def wait(self) -> None:
        """Blocks until the node is dead; signal handlers may raise meanwhile."""
        if self._node is not None:
            os.waitid(os.P_PID, self._node.pid, os.WEXITED | os.WNOWAIT)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _signal(self, number: signal.Signals) -> bool:
        pid = self.pid
        if pid is None:
            return False
        # It may die by itself meanwhile.
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        return True

    def _take_lock(self) -> None:
        if self._lock is None:
            self._lock = try_lock(self.directory / "broker.lock")
        if self._lock is None:
            raise UsageError(
                f"the broker in {self.directory} is run by another process: "
                "stop that one, or choose another directory"
            )

    def _prepare(self) -> None:
        """With the lock in hand: another one's port and password are not to be replaced."""
        self._credentials = load_credentials(self.directory)
        self.port = self.port or _stored_port(self.directory)
        # The node would find out as well, but only after some seconds.
        if not is_free(self.port):
            raise BooksanError(
                f"the broker in {self.directory} cannot start: another program has the port "
                f"{self.port} of 127.0.0.1. End that program, or choose another port."
            )
        write_config(self.directory, self._credentials, self.port)

    def _release_lock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            end_leftovers(self.directory)
            os.close(lock)

    def _launch(self, server: Path, epmd: Path) -> None:
        ports = Ports(self.port, *free_ports(2))
        self._variables = environment(self.directory, self._node_name, ports)
        # The node would start a port mapper for the whole machine and leave it behind.
        mapper = [str(epmd), "-port", str(ports.epmd), "-address", "127.0.0.1"]
        self._epmd = self._spawn(mapper)
        self._node = self._spawn([str(server)])

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        if threading.current_thread() is threading.main_thread():
            command = [sys.executable, "-I", tied.__file__, str(os.getpid()), *command]
        with (self.directory / "log" / "output.log").open("ab") as output:
            return subprocess.Popen(
                command,
                cwd=self.directory,
                env=self._variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # The keys of a terminal are for the keeper, which then ends the node in order.
                start_new_session=True,
            )

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not speaks_amqp(self.port):
            if self._node is None or self._node.poll() is not None:
                raise self._failure("ended while it started")
            if time.monotonic() > deadline:
                raise self._failure(f"does not answer after {START_SECONDS:.0f} seconds")
            time.sleep(LOOK_SECONDS)
        # Another program on that port may have answered in place of a node that could not start.
        if self._node is None or self._node.poll() is not None:
            raise self._failure("ended while it started")

    def _failure(self, what: str) -> BooksanError:
        return BooksanError(
            f"the broker in {self.directory} {what}. The end of its log:\n"
            f"{log_tail(self.directory)}"
        )

    def _reap(self) -> None:
        for process in (self._node, self._epmd):
            if process is not None:
                process.kill()
                process.wait()
        self._node = self._epmd = None


def _stored_port(directory: Path) -> int:
    """The port that this directory had before, as long as nobody else has it."""
    path = directory / "port"
    if path.exists():
        port = int(path.read_text(encoding="utf-8"))
        if is_free(port):
            return port
    (port,) = free_ports(1)
    write_private(path, f"{port}\n")
    return port


def _machine(pid: int) -> int | None:
    """The Erlang machine: the process itself, or a child of a start script that waits for it."""
    try:
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            if one.name().startswith("beam"):
                return one.pid
    except psutil.NoSuchProcess:
        return None
    return pid


# Keeps a node running: starts it, brings it back when it dies, tells others how it is.

#: Seconds before a node is started again: first, and longest when it dies again and again.
PAUSES = (0.1, 5.0)
#: Seconds after which a node counts as healthy, so that its next death is a first one.
HEALTHY_SECONDS = 30.0

STATUS = "broker.json"


class Stop(BaseException):
    """A signal asks for the end. Not an Exception: nothing on the way may take it for a fault."""


class Keeper:
    def __init__(self, directory: Path, port: int = 0) -> None:
        self._broker = Broker(directory, port)
        self._restarts = 0
        self._pauses = Backoff(*PAUSES)

    def run(self) -> None:
        """Until SIGTERM, SIGINT or SIGHUP; an error if the node does not even start once."""
        heed(_raise_stop, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        try:
            self._broker.start()
            while True:
                self._tell(ready=True)
                self._watch()
                self._bring_back()
        except Stop:
            log.info("stopping the broker in %s", self._broker.directory)
        finally:
            held = self._broker.held
            self._broker.stop()
            if held:
                self._tell(ready=False)

    def _watch(self) -> None:
        began = time.monotonic()
        self._broker.wait()
        log.warning("the broker in %s died", self._broker.directory)
        if time.monotonic() - began > HEALTHY_SECONDS:
            self._pauses.reset()

    def _bring_back(self) -> None:
        while True:
            self._restarts += 1
            self._tell(ready=False)
            time.sleep(next(self._pauses))
            try:
                self._broker.start()
                return
            except UsageError:
                # Another keeper took over: trying again would only disturb it.
                raise
            except BooksanError as error:
                log.warning("%s", error)

    def _tell(self, *, ready: bool) -> None:
        status = {
            "url": self._broker.url,
            "port": self._broker.port,
            "pid": self._broker.pid,
            "keeper": os.getpid(),
            "restarts": self._restarts,
            "ready": ready,
        }
        write_private(self._broker.directory / STATUS, json.dumps(status, indent=2) + "\n")


def read_status(directory: Path) -> dict[str, Any] | None:
    """What the keeper of the directory wrote last; None if there never was one."""
    try:
        status: dict[str, Any] = json.loads((directory / STATUS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return status


def _raise_stop(signum: int, _frame: FrameType | None) -> None:
    # Once: the orderly end must not be interrupted by an impatient second key press.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    raise Stop(signum)
