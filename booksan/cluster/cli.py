"""The commands `booksan host` and `booksan cluster ...`."""

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from booksan.errors import EXIT_NOT_WELL, UsageError
from booksan.host.config import Revival
from booksan.shards import ShardId
from booksan_client.cli import Json
from booksan_client.completion import beginning, last_of_several
from booksan_common.commands import SELDOM, Commands, notes, option
from booksan_common.names import nearest

if TYPE_CHECKING:
    from booksan.cluster.paths import ClusterRecord

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    help="Runs all hosts of a topology on this machine, in the background.",
)
HOST_NOTES = notes(
    "booksan host",
    "booksan host --stages q3-join,q5-sentiment,results",
    "booksan host --config hosts/three.toml --name alpha",
    codes=(6, 70, 75, 78),
)


def topologies(incomplete: str) -> list[str]:
    """For the shell's completion, as all of these."""
    from booksan.topology.parse import known_topologies

    return beginning(incomplete, known_topologies())


def _clusters(incomplete: str) -> list[str]:
    return beginning(incomplete, [path.name for path in known_clusters()])


def _hosts(context: typer.Context, incomplete: str) -> list[str]:
    return beginning(incomplete, _tables_of_hosts(context))


def _stages(context: typer.Context, incomplete: str) -> list[str]:
    """All shards of a stage, or one of several."""
    shards: dict[str, list[int]] = {}
    for host in _tables_of_hosts(context).values():
        for stage, numbers in host.get("stages", {}).items():
            shards.setdefault(stage, []).extend(numbers)
    several = {stage: numbers for stage, numbers in shards.items() if len(numbers) > 1}
    single = [
        str(ShardId(stage, number)) for stage, all in several.items() for number in sorted(all)
    ]
    return last_of_several(incomplete, sorted([*shards, *single]))


def _tables_of_hosts(context: typer.Context) -> dict[str, dict[str, Any]]:
    """Of the topology that is named before; it is checked when the command runs."""
    import tomllib

    from booksan.topology.parse import DEFAULT, find_topology

    try:
        text = find_topology(context.params.get("config") or DEFAULT).read_text("utf-8")
        found = tomllib.loads(text).get("hosts", {})
    except (OSError, ValueError, UsageError):
        return {}
    return {name: table for name, table in found.items() if isinstance(table, dict)}


Config = Annotated[
    str,
    typer.Argument(
        metavar="CONFIG",
        help="A topology: its name (three) or its file.",
        autocompletion=topologies,
    ),
]
MaybeConfig = Annotated[
    str | None,
    typer.Argument(
        metavar="CONFIG",
        help="A topology: its name or its file.",
        show_default="the only cluster",
        autocompletion=_clusters,
    ),
]
DataDir = Annotated[
    Path | None,
    option(
        "DIR", "Where the cluster is kept.", default="by its name in the user's state directory"
    ),
]
Compose = Annotated[
    str | None,
    option(
        "PROJECT",
        "The containers of this Compose project instead; by the command docker.",
        default="none",
    ),
]


_Name = Annotated[
    str | None,
    option(
        "NAME",
        "Which host this is.",
        default="the only one, or after --stages",
        autocompletion=_hosts,
    ),
]

_Stages = Annotated[
    str | None,
    option(
        "STAGES",
        "Shards picked by hand: q3-join,q5-sentiment.1 (all of a stage, or one).",
        default="those of the host",
        autocompletion=_stages,
    ),
]

_Listen = Annotated[
    str | None,
    option(
        "ADDRESS:PORT",
        "Where the gateway listens, 0 for any free port.",
        default="as in the topology",
        panel="Gateway",
    ),
]

_Port = Annotated[
    int | None,
    option(
        "PORT",
        "The port of the gateway, 0 for any free one.",
        default="as in the topology",
        panel="Gateway",
        min=0,
        max=65535,
    ),
]


def host(
    config: Annotated[
        str,
        option(
            "CONFIG",
            "The topology: its name (three) or its file (hosts/three.toml).",
            autocompletion=topologies,
        ),
    ] = "single",
    name: _Name = None,
    stages: _Stages = None,
    data_dir: Annotated[
        Path | None,
        option("DIR", "The host's disk.", default="in the user's state directory"),
    ] = None,
    gateway: Annotated[
        bool, typer.Option(help="With a gateway for clients.", rich_help_panel="Gateway")
    ] = True,
    listen: _Listen = None,
    port: _Port = None,
    secret_file: Annotated[
        Path | None,
        option(
            "FILE",
            "The secret that all hosts share; also BOOKSAN_SECRET_FILE.",
            default="made once, for hosts on one machine",
            panel=SELDOM,
        ),
    ] = None,
    queues_file: Annotated[
        Path | None,
        option(
            "FILE",
            "A file with the address of the queues; BOOKSAN_QUEUES goes before it.",
            default="as in the topology",
            panel=SELDOM,
        ),
    ] = None,
    revival: Annotated[
        Revival,
        typer.Option(
            help="How this host brings others back when it leads: process (those on this machine), "
            "docker (containers of its Compose project), none.",
            rich_help_panel=SELDOM,
        ),
    ] = Revival.PROCESS,
) -> None:
    """Runs one host of a topology until SIGTERM or Ctrl-C, which finish what is in hand."""
    from booksan.cluster.host import HostRequest, host_command

    host_command(
        HostRequest(
            config, name, stages, data_dir, gateway, listen, secret_file, queues_file, revival, port
        )
    )


@app.command(
    epilog=notes(
        "booksan cluster up three --with-broker",
        "booksan cluster up single --any-ports",
        codes=(6,),
    )
)
def up(
    config: Config,
    with_broker: Annotated[
        bool, typer.Option("--with-broker", help="With a RabbitMQ of its own.")
    ] = False,
    any_ports: Annotated[
        bool, typer.Option("--any-ports", help="On free ports instead of the topology's.")
    ] = False,
    port_base: Annotated[
        int | None,
        option("PORT", "On ports from this one on.", default="the topology's", min=1, max=65000),
    ] = None,
    wait: Annotated[float, option("SECONDS", "How long the start may take.", min=1)] = 60.0,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Starts what is not running of a cluster, and returns when all of it is at work."""
    from booksan.cluster.start import UpOptions
    from booksan.cluster.start import up as start_cluster
    from booksan.datasets import warn_of_broken
    from booksan.topology.parse import load_topology
    from booksan_common.terminal import say

    if any_ports and port_base is not None:
        raise UsageError("--any-ports and --port-base exclude each other")
    topology = load_topology(config)
    warn_of_broken()
    directory = _directory(topology.name, data_dir)
    # As Ctrl-C does: what was started is stopped again.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = UpOptions(with_broker, any_ports, port_base, wait)
    record, done = start_cluster(directory, topology, options, _unsaid if as_json else _progress)
    if as_json:
        gateways = {name: host.gateway for name, host in record.hosts.items()}
        document = {"cluster": record.name, "data_dir": str(directory), "gateways": gateways}
        _print_json(document, 0)
        return
    say(f"booksan: {topology.name} {done}; `booksan cluster down` ends it")
    for line in _how_to_submit(record):
        say(line)


def _progress(text: str) -> None:
    """For whoever waits at a terminal."""
    from booksan_common.terminal import say

    if sys.stderr.isatty():
        say(f"booksan: {text}", err=True)


def _how_to_submit(record: "ClusterRecord") -> Iterator[str]:
    """With all gateways, so that a client outlives any of them."""
    servers = (f"    --server {host.gateway}" for host in record.hosts.values())
    lines = ["booksan submit DATASET FILES --out DIR", *servers]
    *lines, last = (f"         {line}" for line in lines)
    yield from (f"{line} \\" for line in lines)
    yield last


@app.command(
    epilog=notes("booksan cluster status", "booksan cluster status three --watch", codes=(9,))
)
def status(
    config: MaybeConfig = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing it until Ctrl-C.")] = False,
    as_json: Json = False,
    data_dir: DataDir = None,
    compose: Compose = None,
) -> None:
    """Shows hosts, leader, workers and queues; exit code 9 if not all of it runs."""
    from booksan.cluster.status import watch_cluster

    where, look = _cluster_to_look_at(config, data_dir, compose)
    found = look()
    if found is None:
        from booksan_common.commands import ended

        raise typer.Exit(ended(as_json, _no_cluster(where, config), EXIT_NOT_WELL))
    if watch and not as_json:
        watch_cluster(look)
        return
    code = 0 if found["running"] else EXIT_NOT_WELL
    if as_json:
        _print_json(found, code)
    else:
        from booksan.cluster.status import show_cluster
        from booksan_common.terminal import PatientConsole

        show_cluster(PatientConsole(), found)
    raise typer.Exit(code)


def _cluster_to_look_at(
    config: str | None, data_dir: Path | None, compose: str | None
) -> tuple[str, Callable[[], dict[str, Any] | None]]:
    from booksan.cluster.containers import containers_status
    from booksan.cluster.status import full_status

    if compose is not None:
        return f"the Compose project {compose}", lambda: containers_status(compose)
    directory = cluster_or_hosts(config, data_dir)
    return str(directory), lambda: full_status(directory)


@app.command(epilog=notes("booksan cluster down", "booksan cluster down three --wipe"))
def down(
    config: MaybeConfig = None,
    wipe: Annotated[bool, typer.Option("--wipe", help="Remove its data too.")] = False,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Stops a cluster: what is in hand is finished, what does not end in time is killed."""
    from booksan.cluster.start import down as stop_cluster
    from booksan_common.terminal import say

    directory = existing_cluster(config, data_dir)
    stopped = stop_cluster(directory, wipe=wipe)
    if as_json:
        document = {"stopped": stopped, "wiped": stopped and wipe, "data_dir": str(directory)}
        _print_json(document, 0)
    elif not stopped:
        # What is not there is as good as stopped.
        say(f"booksan: {_no_cluster(str(directory), config)}", err=True)
    elif wipe:
        say(f"booksan: the cluster in {directory} is stopped and its data removed")
    else:
        say(f"booksan: the cluster is stopped; its data is kept in {directory}")


def _directory(name: str, data_dir: Path | None) -> Path:
    from booksan.cluster.paths import clusters_directory

    return (data_dir or clusters_directory() / name).absolute()


def existing_cluster(config: str | None, data_dir: Path | None) -> Path:
    """The cluster that is meant: by its directory, its name, its file, or the only one."""
    from booksan.cluster.paths import clusters_directory

    if data_dir is not None:
        return data_dir.absolute()
    if config is not None:
        return _directory(_name(config), None)
    known = known_clusters()
    if len(known) > 1:
        names = ", ".join(path.name for path in known)
        raise UsageError(f"there are the clusters {names}; say which one is meant")
    return known[0] if known else clusters_directory()


def known_clusters() -> list[Path]:
    from booksan.cluster.paths import clusters_directory

    return sorted(path.parent for path in clusters_directory().glob("*/cluster.json"))


def _no_cluster(where: str, config: str | None) -> str:
    known = [path.name for path in known_clusters()]
    if config is not None and known:
        return f"no cluster in {where}; {nearest(config, known)}"
    return f"no cluster in {where}; booksan cluster up starts one"


def cluster_or_hosts(config: str | None, data_dir: Path | None) -> Path:
    """The same; or, where there is none, the hosts that were started one by one."""
    from booksan.cluster.paths import CLUSTER_FILE, hosts_directory
    from booksan.cluster.registry import running_members

    directory = existing_cluster(config, data_dir)
    if data_dir is not None or (directory / CLUSTER_FILE).exists():
        return directory
    found = hosts_directory(directory.name) if config is not None else None
    known = [found] if found else sorted(hosts_directory("any").parent.glob("*"))
    running = [path for path in known if running_members(path)]
    if len(running) > 1:
        names = ", ".join(path.name for path in running)
        raise UsageError(f"there are hosts of {names}; say which ones are meant")
    return running[0] if running else directory


def _name(config: str) -> str:
    from booksan.topology.parse import NAME

    if NAME.fullmatch(config):
        return config
    # Only for a file: all the data sets come along.
    from booksan.topology.parse import load_topology

    return load_topology(config).name


def _unsaid(line: str) -> None:
    """Words that the JSON document says in its own way."""


def _print_json(document: dict[str, Any], code: int) -> None:
    from booksan_common.commands import print_json

    print_json(document | {"exit_code": code})
