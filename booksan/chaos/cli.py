"""The command `booksan chaos`."""

import random
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from booksan.cluster.cli import Compose, DataDir, MaybeConfig
from booksan.errors import EXIT_NOT_WELL
from booksan_client import completion
from booksan_client.cli import Json
from booksan_common.commands import SELDOM, heed, option

if TYPE_CHECKING:
    from booksan.chaos.run import ChaosOptions, Looker

#: The title of a group of options.
_PAUSES = "Pauses"


def _kinds(incomplete: str) -> list[str]:
    from booksan.chaos.kinds import TargetKind

    return completion.last_of_several(incomplete, list(TargetKind))


Target = Annotated[
    str,
    option(
        "KINDS",
        "What is hit: worker, gateway, supervisor (one that does not lead), leader, host "
        "(supervisor, workers and gateway at once), broker, client; with commas. A killed client "
        "comes back only when somebody starts its command again. With --compose a supervisor, a "
        "leader and a host are a container.",
        autocompletion=_kinds,
    ),
]
Every = Annotated[
    str | None,
    option(
        "DURATIONS",
        "How often each kind is hit, about: 2s for all, worker=1s,host=15s for some, "
        "2s,host=15s for both.",
        default="worker=2s, gateway=5s, supervisor=15s, leader=20s, host=15s, broker=45s, "
        "client=10s",
    ),
]
For = Annotated[
    str | None,
    option("DURATION", "How long.", "--for", default="until Ctrl-C"),
]
Until = Annotated[
    list[str] | None,
    option(
        "CLIENT",
        "Until this client is done or gone; repeat it for several. Of clients, only these are hit.",
        autocompletion=completion.clients,
    ),
]
Seed = Annotated[
    int | None,
    option("N", "The same seed gives the same moments.", default="made up"),
]
Pause = Annotated[
    bool,
    typer.Option(
        "--pause",
        help="Stop some with SIGSTOP for a while instead of killing them.",
        rich_help_panel=_PAUSES,
    ),
]
PauseFor = Annotated[
    str,
    option("DURATION", "How long one is stopped.", panel=_PAUSES),
]
PauseShare = Annotated[
    float,
    option(
        "SHARE",
        "With --pause: the share of strikes that stop; 1 for all.",
        panel=_PAUSES,
        min=0,
        max=1,
    ),
]
Patience = Annotated[str, option("DURATION", "In which everything hit must be back.")]
NoMercy = Annotated[
    bool,
    typer.Option(
        "--no-mercy",
        help="Hit also the last supervisor that could revive others.",
        rich_help_panel=SELDOM,
    ),
]
Log = Annotated[
    Path | None,
    option("FILE", "Write each event as a line of JSON, too.", panel=SELDOM),
]


def chaos(
    config: MaybeConfig = None,
    data_dir: DataDir = None,
    compose: Compose = None,
    target: Target = "worker",
    every: Every = None,
    duration: For = None,
    until: Until = None,
    seed: Seed = None,
    pause: Pause = False,
    pause_for: PauseFor = "3s",
    pause_share: PauseShare = 0.5,
    patience: Patience = "60s",
    no_mercy: NoMercy = False,
    log: Log = None,
    as_json: Json = False,
) -> None:
    """Kills parts of a cluster with SIGKILL at random moments, and tells when they are back.

    What is not back yet is not hit again. Exit code 9: not back within --patience.

    Ctrl-C ends it in order; a second one does not wait for what is not back.
    """
    from booksan.chaos.kinds import parse_duration, parse_every, parse_targets
    from booksan.chaos.run import ChaosOptions

    options = ChaosOptions(
        parse_every(every, parse_targets(target)),
        random.SystemRandom().randrange(1_000_000) if seed is None else seed,
        parse_duration("--for", duration) if duration else None,
        tuple(until or ()),
        pause_share if pause else 0.0,
        parse_duration("--pause-for", pause_for),
        parse_duration("--patience", patience),
        not no_mercy,
    )
    looker, token_file = _cluster_to_hit(config, data_dir, compose)
    raise typer.Exit(_hit(looker, token_file, options, log, as_json=as_json))


def _hit(
    looker: "Looker",
    token_file: Path | None,
    options: "ChaosOptions",
    log: Path | None,
    *,
    as_json: bool,
) -> int:
    """Strikes until the end, and tells what became of it; the exit code."""
    from booksan.chaos.run import Chaos, Report, Stop, show_summary, summary
    from booksan_common.terminal import PatientConsole, say

    report = Report((lambda _: None) if as_json else say, log)
    stop = Stop()
    heed(stop, signal.SIGINT, signal.SIGTERM)
    try:
        seconds = Chaos(looker, options, report, stop, token_file).run()
    finally:
        report.close()
    found = summary(report.strikes, options.seed, seconds)
    code = EXIT_NOT_WELL if found["late"] or found["not_back"] else 0
    if as_json:
        from booksan_common.commands import print_json

        print_json(found | {"exit_code": code})
    else:
        show_summary(PatientConsole(), found)
    return code


def _cluster_to_hit(
    config: str | None, data_dir: Path | None, compose: str | None
) -> "tuple[Looker, Path | None]":
    """With the file of its operator's token; without one the token is in the environment."""
    from booksan.chaos.containers import ContainerLooker
    from booksan.chaos.view import Looker
    from booksan.cluster.cli import cluster_or_hosts
    from booksan.cluster.start import OPERATOR_TOKEN_FILE
    from booksan.errors import UsageError

    if compose is None:
        directory = cluster_or_hosts(config, data_dir)
        token = directory / OPERATOR_TOKEN_FILE
        return Looker(directory), token if token.exists() else None
    if config is not None or data_dir is not None:
        raise UsageError("--compose names the cluster; leave out CONFIG and --data-dir")
    return ContainerLooker(compose), None
