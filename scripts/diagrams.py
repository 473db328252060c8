"""Writes docs/diagrams.md: pictures that come out of the code, not drawn by hand.

`make diagrams` runs it. What the arrows of a host and of a message mean stands here; all names,
shards, addresses and crash points are those of the code and of hosts/*.toml.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from booksan.datasets import datasets
from booksan.stages.diagram import flowchart, label, mermaid
from booksan.topology.model import HostPlan, QueuesKind, Topology
from booksan.topology.parse import load_topology
from booksan.worker.shard import POINTS

PAGE = Path(__file__).parents[1] / "docs" / "diagrams.md"

#: Shards in a line of a box.
IN_A_LINE = 3

INTRODUCTION = """\
# Diagrams

`make diagrams` writes this page out of the code, and a test fails when it is out of date.

## The data sets

`booksan datasets NAME --graph` prints these, and `--graph svg` a picture of the same. A stage
names its operator (`booksan/stages/operators/`) and what it is keyed by: rows with the same key go
to the same shard, and a stage by client has one result for each client. A thick arrow is a source
that must be complete at the stage before the next source begins. Inside the home are the tables
that it keeps: the answers, with the parameters' defaults, and the rows of the sources, counted and
rejected.
"""
PROCESSES = """\
## The processes of a host

`booksan host` runs this (`hosts/single.toml`). Every shard is a worker process. The supervisor
starts gateway and workers, and restarts what dies; messages go through the queues alone.
"""
DEPLOYMENT = """\
## A deployment of three hosts

`booksan cluster up three` runs this (`hosts/three.toml`). The shards are dealt out to the hosts;
gateways and workers talk through the broker, and the supervisors elect a leader, which brings back
hosts that die (dotted).
"""
LIFE = f"""\
## The life of a message

At each of these {len(POINTS)} points the tests kill the worker (`booksan/worker/shard.py`), alone
and in pairs, and the answers are the same. A stateless stage has no database: it goes from
`computed` to publishing.
"""


def page() -> str:
    graphs = (f"### {name}\n\n{_block(mermaid(found))}" for name, found in datasets().items())
    parts = [
        _paragraphs(INTRODUCTION),
        *graphs,
        _paragraphs(PROCESSES) + "\n" + _block(processes(load_topology("single"))),
        _paragraphs(DEPLOYMENT) + "\n" + _block(deployment(load_topology("three"))),
        _paragraphs(LIFE) + "\n" + _block(life(POINTS)),
    ]
    return "\n".join(parts)


def _paragraphs(text: str) -> str:
    """In documents a paragraph is one line."""
    return "\n\n".join(part.replace("\n", " ") for part in text.strip().split("\n\n")) + "\n"


def _block(text: str) -> str:
    return f"```mermaid\n{text}```\n"


def _text(lines: Iterator[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


# -- hosts -----------------------------------------------------------------------------------------


def processes(topology: Topology) -> str:
    """One host from inside."""
    (host,) = topology.hosts.values()
    return _text(_processes(topology, host))


def _processes(topology: Topology, host: HostPlan) -> Iterator[str]:
    yield from flowchart("TB")
    yield f"    client[{label('client', 'booksan submit')}]"
    yield f"    subgraph host [{label(f'host {host.name}')}]"
    yield f"        supervisor[{label('supervisor')}]"
    yield f"        gateway[{label('gateway', host.url)}]"
    yield f"        workers[{_workers(host)}]"
    yield f"        queues[({_queues(topology)})]"
    yield f"        state[({label('state', 'SQLite: a database for each', 'client and shard')})]"
    yield "    end"
    yield "    client -- HTTP --> gateway"
    yield "    gateway -- batches --> queues"
    yield "    queues <-- messages --> workers"
    yield "    workers -- transactions --> state"
    yield "    state -- answers --> gateway"
    yield "    supervisor -. forks, restarts .-> gateway"
    yield "    supervisor -. forks, restarts .-> workers"


def deployment(topology: Topology) -> str:
    """All hosts from outside."""
    return _text(_deployment(topology))


def _deployment(topology: Topology) -> Iterator[str]:
    yield from flowchart("LR")
    yield f"    clients[{label('clients')}]"
    for host in topology.hosts.values():
        yield f"    subgraph {host.name} [{label(f'host {host.name}')}]"
        yield f"        {host.name}_gateway[{label('gateway', host.url)}]"
        yield f"        {host.name}_workers[{_workers(host)}]"
        yield f"        {host.name}_supervisor[{label('supervisor', f'UDP {host.address}')}]"
        yield "    end"
    yield f"    broker[({_queues(topology)})]"
    yield f"    election([{label('election of a leader', 'among all supervisors')}])"
    for name in topology.hosts:
        yield f"    clients --> {name}_gateway"
        yield f"    {name}_gateway --> broker"
        yield f"    {name}_workers <--> broker"
        yield f"    {name}_supervisor <-.-> election"


def _workers(host: HostPlan) -> str:
    names = [str(shard) for shard in host.shards]
    lines = (names[n : n + IN_A_LINE] for n in range(0, len(names), IN_A_LINE))
    return label(f"{len(names)} workers", *(", ".join(line) for line in lines))


def _queues(topology: Topology) -> str:
    if topology.queues.kind is QueuesKind.SPOOL:
        return label("queues", "spool: directories on disk")
    return label("RabbitMQ", topology.queues.url)


# -- messages --------------------------------------------------------------------------------------

#: What happens before each crash point: who does it, to whom, and what.
STEPS = {
    "received": ("queue", "worker", "what is waiting"),
    "computed": ("worker", "worker", "prepare"),
    "in-transaction": ("worker", "database", "begin: dedup, state and outbox"),
    "committed": ("worker", "database", "commit"),
    "partly-published": ("worker", "readers", "some of the outbox"),
    "published": ("worker", "readers", "all of them, confirmed"),
    "outbox-cleared": ("worker", "database", "note that they are sent"),
    "acknowledged": ("worker", "queue", "acknowledge"),
    "final-in-transaction": ("worker", "database", "begin: a piece of output into the outbox"),
    "final-committed": ("worker", "database", "commit"),
    "final-published": ("worker", "readers", "the piece, confirmed"),
    "permit-in-transaction": ("worker", "database", "begin: as above, and a report to the home"),
    "permit-committed": ("worker", "database", "commit"),
    "buried": ("worker", "database", "a tombstone"),
    "deleted": ("worker", "database", "delete all of the client"),
}
#: When the points from this one on are met.
TIMES = {
    "final-in-transaction": "once all input is there",
    "permit-in-transaction": "instead of 3 and 4, when a join has all of a source",
    "buried": "when the client is gone",
}


def life(points: Sequence[str]) -> str:
    """The crash points in order, each as a note behind the step that it follows."""
    return _text(_life(points))


def _life(points: Sequence[str]) -> Iterator[str]:
    yield "sequenceDiagram"
    yield "    autonumber"
    yield "    participant queue as its queue"
    yield "    participant worker"
    yield "    participant database"
    yield "    participant readers as queues of its readers"
    inside = False
    for point in points:
        if point in TIMES:
            if inside:
                yield "    end"
            yield f"    opt {TIMES[point]}"
            inside = True
        start, end, what = STEPS[point]
        yield f"    {start}->>{end}: {what}"
        yield f"    Note over worker: {point}"
    if inside:
        yield "    end"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
