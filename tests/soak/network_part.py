"""Rounds on networks that break: whole hosts in namespaces, with revival on."""

import random
import time
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Any

from booksan.broker import Broker, find_server
from tests.soak.parts import Part
from tests.support.command import PATIENCE, wait_until
from tests.support.inputs import Inputs
from tests.support.network import why_no_network
from tests.support.wide import SHAPES, Wide, mend, wide_cluster

#: Seconds that a break lasts.
SHORTEST, LONGEST = 0.5, 8.0
#: Breaks of one round.
BREAKS = 6
ROWS = 1_500


class Network(Part):
    name = "network"
    title = "Networks that break"
    about = (
        "Three whole hosts in network namespaces, their broker behind a proxy for each of them. A "
        "host is cut off, heard by nobody, or hears nobody; two hosts lose each other; all lose "
        "the broker, or each other; connections hang; links are slow. Packets are dropped in "
        "silence. No host may be killed for it, one leads when all is mended, and the client's "
        "files are those of the oracle."
    )

    @property
    def lacks(self) -> str | None:
        return why_no_network() or (None if find_server() else "there is no rabbitmq-server")

    @cached_property
    def wide(self) -> Wide:
        broker = self.stack.enter_context(Broker(self.root / "broker"))
        return self.stack.enter_context(wide_cluster(self.root / "hosts", broker))

    @cached_property
    def inputs(self) -> Inputs:
        directory = self.root / "inputs"
        directory.mkdir()
        return Inputs.make("books", directory, 3, rows=ROWS, dirty=True)

    def run(self, number: int) -> dict[str, Any]:
        wide, out, before = self.wide, self.root / f"out-{number}", self.wide.pids()
        words = self.inputs.words("submit", out, "--batch-bytes", "10000", "--json")
        with wide.submit([str(word) for word in words]) as client:
            broken = self._break(random.Random(number))
            began = time.monotonic()
            wait_until(lambda: set(wide.leaders().values()) == {"gamma"})
            agreed = time.monotonic() - began
            _, err = client.communicate(timeout=2 * PATIENCE)
            done = time.monotonic() - began
        findings = self._judge(number, out, client.returncode, err.decode())
        if wide.pids() != before:
            findings.append(f"round {number}: a host was killed because it was not heard")
        return {
            "runs": 1,
            "faults": dict(broken),
            "returns": {"the client's answers": [done], "one leader of all": [agreed]},
            "outcomes": {"wrong" if findings else "right": 1},
            "findings": findings,
        }

    def _break(self, chance: random.Random) -> Counter[str]:
        broken: Counter[str] = Counter()
        for _ in range(BREAKS):
            shape = chance.choice(SHAPES)
            shape(self.wide)
            time.sleep(chance.uniform(SHORTEST, LONGEST))
            mend(self.wide)
            broken[shape.__name__.replace("_", " ")] += 1
            time.sleep(chance.uniform(0.0, 2.0))
        return broken

    def _judge(self, number: int, out: Path, code: int, err: str) -> list[str]:
        if code != 0:
            return [f"round {number}: the client ended with {code}: {err}"]
        try:
            self.inputs.check(out)
            wait_until(lambda: not any(self.wide.place.root.glob("*/clients/*/*.db")))
        except AssertionError as error:
            return [f"round {number}: {error}"]
        return []
