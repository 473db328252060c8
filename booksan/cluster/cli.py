"""The commands `booksan host` and `booksan cluster ...`."""

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from booksan.errors import UsageError
from booksan.supervisor.config import Revival

app = typer.Typer(
    no_args_is_help=True, help="Runs all hosts of a topology on this machine, in the background."
)

#: Of `status`: not all of the cluster runs.
EXIT_NOT_RUNNING = 3

Config = Annotated[
    str, typer.Argument(metavar="CONFIG", help="A topology: its name (three) or its file.")
]
MaybeConfig = Annotated[
    str | None,
    typer.Argument(
        metavar="CONFIG", help="A topology: its name or its file.", show_default="the only cluster"
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="Where the cluster is kept.", show_default="by its name in the user's state directory"
    ),
]
Compose = Annotated[
    str | None,
    typer.Option(
        metavar="PROJECT",
        help="The containers of this Compose project instead; by the command docker.",
        show_default="none",
    ),
]


def host(
    config: Annotated[
        str, typer.Option(help="The topology: its name (three) or its file (hosts/three.toml).")
    ] = "single",
    name: Annotated[
        str | None,
        typer.Option(help="Which host this is.", show_default="the only one, or after --stages"),
    ] = None,
    stages: Annotated[
        str | None,
        typer.Option(
            metavar="STAGES",
            help="Shards picked by hand: q3-join,q5-sentiment.1 (all of a stage, or one).",
            show_default="those of the host",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="The host's disk.", show_default="in the user's state directory"),
    ] = None,
    gateway: Annotated[bool, typer.Option(help="With a door for clients.")] = True,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS:PORT",
            help="Where the gateway listens, 0 for any free port.",
            show_default="as in the topology",
        ),
    ] = None,
    secret_file: Annotated[
        Path | None,
        typer.Option(
            help="The secret that all hosts share; also BOOKSAN_SECRET_FILE.",
            show_default="made once, for hosts on one machine",
        ),
    ] = None,
    queues_file: Annotated[
        Path | None,
        typer.Option(
            help="A file with the address of the queues; BOOKSAN_QUEUES goes before it.",
            show_default="as in the topology",
        ),
    ] = None,
    revival: Annotated[
        Revival,
        typer.Option(
            help="How this host brings others back when it leads: process (those on this machine), "
            "docker (containers of its Compose project), none."
        ),
    ] = Revival.PROCESS,
) -> None:
    """Runs one host of a topology until SIGTERM or Ctrl-C, which finish what is in hand."""
    from booksan.cluster.host import HostRequest, host_command

    host_command(
        HostRequest(
            config, name, stages, data_dir, gateway, listen, secret_file, queues_file, revival
        )
    )


@app.command()
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
        typer.Option(
            min=1, max=65000, help="On ports from this one on.", show_default="the topology's"
        ),
    ] = None,
    wait: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="How long the start may take.")
    ] = 60.0,
    data_dir: DataDir = None,
) -> None:
    """Starts what is not running of a cluster, and returns when all of it is at work."""
    from booksan.cluster.start import UpOptions
    from booksan.cluster.start import up as start_cluster
    from booksan.topology.files import load_topology

    if any_ports and port_base is not None:
        raise UsageError("--any-ports and --port-base exclude each other")
    topology = load_topology(config)
    directory = _directory(topology.name, data_dir)
    # As Ctrl-C does: what was started is stopped again.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = UpOptions(with_broker, any_ports, port_base, wait)
    record = start_cluster(directory, topology, options, typer.echo)
    for plan in record.hosts.values():
        typer.echo(f"  {plan.gateway}")


@app.command()
def status(
    config: MaybeConfig = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing it until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    data_dir: DataDir = None,
    compose: Compose = None,
) -> None:
    """Shows hosts, leader, workers and queues. Exit code 0: all of it runs; 3: not all."""
    from booksan.cluster.table import watch_cluster

    where, look = _cluster_to_look_at(config, data_dir, compose)
    found = look()
    if found is None:
        typer.echo(f"booksan: no cluster in {where}", err=True)
        raise typer.Exit(EXIT_NOT_RUNNING)
    if watch and not as_json:
        watch_cluster(look)
        return
    _print(found, as_json=as_json)
    raise typer.Exit(0 if found["running"] else EXIT_NOT_RUNNING)


def _cluster_to_look_at(
    config: str | None, data_dir: Path | None, compose: str | None
) -> tuple[str, Callable[[], dict[str, Any] | None]]:
    from booksan.cluster.containers import containers_status
    from booksan.cluster.status import full_status

    if compose is not None:
        return f"the Compose project {compose}", lambda: containers_status(compose)
    directory = existing_cluster(config, data_dir)
    return str(directory), lambda: full_status(directory)


@app.command()
def down(
    config: MaybeConfig = None,
    wipe: Annotated[bool, typer.Option("--wipe", help="Remove its data too.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Stops a cluster: what is in hand is finished, what does not end in time is killed."""
    from booksan.cluster.down import down as stop_cluster

    directory = existing_cluster(config, data_dir)
    if not stop_cluster(directory, wipe=wipe):
        typer.echo(f"booksan: no cluster in {directory}", err=True)
    elif wipe:
        typer.echo(f"the cluster in {directory} is stopped and its data removed")
    else:
        typer.echo(f"the cluster is stopped; its data is kept in {directory}")


def _directory(name: str, data_dir: Path | None) -> Path:
    from booksan.cluster.places import clusters_directory

    return (data_dir or clusters_directory() / name).absolute()


def existing_cluster(config: str | None, data_dir: Path | None) -> Path:
    """The cluster that is meant: by its directory, its name, its file, or the only one."""
    from booksan.cluster.places import clusters_directory

    if data_dir is not None:
        return data_dir.absolute()
    if config is not None:
        return _directory(_name(config), None)
    known = sorted(path.parent for path in clusters_directory().glob("*/cluster.json"))
    if len(known) > 1:
        names = ", ".join(path.name for path in known)
        raise UsageError(f"there are the clusters {names}; say which one is meant")
    return known[0] if known else clusters_directory()


def _name(config: str) -> str:
    from booksan.topology.parse import NAME

    if NAME.fullmatch(config):
        return config
    # Only for a file: all the data sets come along.
    from booksan.topology.files import load_topology

    return load_topology(config).name


def _print(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
        return
    from booksan.cluster.table import show_cluster
    from booksan_client.terminal import PatientConsole

    show_cluster(PatientConsole(), found)
