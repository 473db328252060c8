"""Three whole hosts, each in a network namespace of its own, on a broker behind proxies."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from booksan.broker import Broker
from booksan.host.status import HostStatus, read_status, supervisor_pid
from tests.support.broker import new_prefix
from tests.support.command import PATIENCE, Place, wait_until
from tests.support.network import Network, namespaces
from tests.support.proxy import Proxy

NAMES = ("alpha", "beta", "gamma")
#: Where the proxies listen, one for each host, and where clients are.
BROKER = "broker"
CLIENT = "client"
FIRST_PORT = 5801

TOPOLOGY = """
name = "wide"
datasets = ["books"]

[queues]
kind = "rabbitmq"
url = "amqp://10.77.0.4:5801/"

[hosts.alpha]
id = 1
address = "10.77.0.1:7401"
gateway = "10.77.0.1:7301"

[hosts.alpha.stages]
q1-filter = [0]
q3-join = [0]
results = [0]

[hosts.beta]
id = 2
address = "10.77.0.2:7401"
gateway = "10.77.0.2:7301"

[hosts.beta.stages]
q2-decades = [0]
q4-top = [0]

[hosts.gamma]
id = 3
address = "10.77.0.3:7401"
gateway = "10.77.0.3:7301"

[hosts.gamma.stages]
q5-sentiment = [0]
q5-percentile = [0]
"""


@dataclass
class Wide:
    place: Place
    network: Network
    #: Between each host and the broker.
    proxies: Mapping[str, Proxy]
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        urls = ",".join(f"http://{self.network.address(name)}:7301" for name in NAMES)
        token, secret = "a-token-of-sixteen-letters", "the secret of these hosts, long enough"
        return self.place.environment(
            {"BOOKSAN_TOKEN": token, "BOOKSAN_SECRET": secret, "BOOKSAN_SERVER": urls}
        )

    def data_dir(self, name: str) -> Path:
        return self.place.root / name

    def start(self, name: str, queues: str) -> None:
        words = ["host", "--config", str(self.place.root / "wide.toml"), "--name", name]
        words += ["--data-dir", str(self.data_dir(name))]
        with (self.place.root / f"{name}.log").open("ab") as log:
            self.processes[name] = self.spawn(
                name, words, {"BOOKSAN_QUEUES": queues}, stdout=log, stderr=log
            )

    def spawn(
        self, where: str, words: list[str], more: Mapping[str, str], **options: object
    ) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
            [*self.network.inside(where), sys.executable, "-m", "booksan", *words],
            stdin=subprocess.DEVNULL,
            env=self.environment | dict(more),
            **options,
        )

    def submit(self, words: list[str]) -> "subprocess.Popen[bytes]":
        return self.spawn(CLIENT, words, {}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def statuses(self) -> dict[str, HostStatus | None]:
        return {name: read_status(self.data_dir(name)) for name in NAMES}

    def leaders(self) -> dict[str, str | None]:
        return {name: one.leader if one else None for name, one in self.statuses().items()}

    def pids(self) -> dict[str, int | None]:
        return {name: supervisor_pid(self.data_dir(name)) for name in NAMES}

    def end(self) -> None:
        for _ in range(2):
            found = self.place.processes()
            for one in found:
                with suppress(psutil.NoSuchProcess):
                    one.kill()
            psutil.wait_procs(found, timeout=PATIENCE)
        for process in self.processes.values():
            process.wait(PATIENCE)


@contextmanager
def wide_cluster(root: Path, broker: Broker) -> Iterator[Wide]:
    """When all hosts follow the highest one."""
    root.mkdir(exist_ok=True)
    (root / "wide.toml").write_text(TOPOLOGY)
    url = urlsplit(broker.url)
    with namespaces(*NAMES, BROKER, CLIENT) as network, ExitStack() as stack:
        proxies = {}
        for number, name in enumerate(NAMES):
            listener = network.listener(BROKER, FIRST_PORT + number)
            proxies[name] = stack.enter_context(Proxy(("127.0.0.1", broker.port), listener))
        found = Wide(Place(root), network, proxies)
        stack.callback(found.end)
        prefix = new_prefix()
        for number, name in enumerate(NAMES):
            place = f"{network.address(BROKER)}:{FIRST_PORT + number}"
            found.start(name, f"amqp://{url.username}:{url.password}@{place}/#{prefix}")
        wait_until(lambda: set(found.leaders().values()) == {"gamma"})
        yield found


# What can break, in which shape. Packets are dropped in silence, so connections hang.

Shape = Callable[[Wide], None]


def cut_off(wide: Wide) -> None:
    wide.network.cut("gamma")


def one_way_out(wide: Wide) -> None:
    """The leader is heard by nobody, and hears all."""
    for other in ("alpha", "beta", BROKER):
        wide.network.drop("gamma", other)


def one_way_in(wide: Wide) -> None:
    """The leader hears nobody."""
    for other in ("alpha", "beta", BROKER):
        wide.network.drop(other, "gamma")


def between_two(wide: Wide) -> None:
    """All others hear both."""
    wide.network.drop("alpha", "beta")
    wide.network.drop("beta", "alpha")


def from_the_broker(wide: Wide) -> None:
    """The hosts hear each other."""
    for name in NAMES:
        wide.network.drop(name, BROKER)


def all_from_all(wide: Wide) -> None:
    for name in NAMES:
        wide.network.cut(name)


def hanging(wide: Wide) -> None:
    for proxy in wide.proxies.values():
        proxy.hang()


def slow(wide: Wide) -> None:
    for proxy in wide.proxies.values():
        proxy.slow(50_000)


SHAPES: Sequence[Shape] = (
    cut_off,
    one_way_out,
    one_way_in,
    between_two,
    from_the_broker,
    all_from_all,
    hanging,
    slow,
)


def mend(wide: Wide) -> None:
    places = (*NAMES, BROKER)
    for one in NAMES:
        wide.network.mend(one)
        wide.proxies[one].mend()
    for one in places:
        for other in places:
            if one != other:
                wide.network.pass_on(one, other)
