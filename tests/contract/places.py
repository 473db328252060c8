"""Where the contract is tested: the transports, and the processes that use them with the test."""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from booksan.errors import QueueBusy
from booksan.transport import Consumer, Delivery, Spool, Transport

#: Every transport under test: how to open it at a place that is fresh for each test.
OPENERS: dict[str, Callable[[Path], Transport]] = {
    "spool": Spool,
}

PROJECT = Path(__file__).parents[2]

#: Seconds that something may take which should take no time, on a machine that is busy.
SOON = 30.0

ALL_BYTES = 1 << 40


class Actor:
    """A process that plays a role of tests/contract/actors.py."""

    def __init__(self, kind: str, path: Path, role: str, *arguments: object) -> None:
        words = [kind, str(path), role, *map(str, arguments)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.contract.actors", *words],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout

    def hear(self) -> str:
        """The next line that it says; it died if there is none."""
        line = self._output.readline()
        assert line, f"the actor ended with {self._process.wait()}"
        return line.strip()

    def tell(self, line: str) -> None:
        self._input.write(line + "\n")
        self._input.flush()

    def kill(self) -> list[str]:
        """Kills it with -9 and returns the lines that were not heard yet."""
        self._process.kill()
        # Not by communicate, which would miss what readline has read ahead.
        lines = self._output.read().split("\n")
        self._finish()
        return lines[:-1]

    def join(self) -> None:
        assert self._output.read() == ""
        assert self._finish() == 0

    def end(self) -> None:
        if self._process.returncode is None:
            self.kill()

    def _finish(self) -> int:
        self._input.close()
        self._output.close()
        return self._process.wait(SOON)


class Place:
    """One fresh set of queues, to be used from this process and from actors."""

    def __init__(self, kind: str, path: Path, cleanup: ExitStack) -> None:
        self._kind = kind
        self.path = path
        self._cleanup = cleanup

    def open(self) -> Transport:
        transport = OPENERS[self._kind](self.path)
        self._cleanup.callback(transport.close)
        return transport

    def actor(self, role: str, *arguments: object) -> Actor:
        actor = Actor(self._kind, self.path, role, *arguments)
        self._cleanup.callback(actor.end)
        return actor


def consume_soon(transport: Transport, queue: str) -> Consumer:
    """A broker may need a moment to notice that the last consumer is dead."""
    deadline = time.monotonic() + SOON
    while True:
        try:
            return transport.consume(queue)
        except QueueBusy:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def receive_exactly(consumer: Consumer, number: int) -> list[Delivery]:
    deliveries: list[Delivery] = []
    while len(deliveries) < number:
        more = consumer.receive(number - len(deliveries), ALL_BYTES, SOON)
        assert more, f"only {len(deliveries)} of {number} messages came"
        deliveries += more
    return deliveries


def drain(transport: Transport, queue: str) -> list[bytes]:
    """All that is in the queue, acknowledged."""
    bodies: list[bytes] = []
    with consume_soon(transport, queue) as consumer:
        while transport.depth(queue).messages:
            deliveries = consumer.receive(100, 64 << 20, SOON)
            assert deliveries, "the queue is not empty but delivers nothing"
            consumer.acknowledge(deliveries)
            bodies += [delivery.body for delivery in deliveries]
    return bodies
