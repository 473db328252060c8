"""The command `booksan chaos`."""

import json
import random
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from booksan.cluster.cli import Compose, DataDir, MaybeConfig
from booksan_client.interrupts import heed

if TYPE_CHECKING:
    from booksan.chaos.run import Looker

#: Something did not come back in time.
EXIT_NOT_BACK = 1


def chaos(
    config: MaybeConfig = None,
    data_dir: DataDir = None,
    compose: Compose = None,
    target: Annotated[
        str,
        typer.Option(
            metavar="KINDS",
            help="What is hit: worker, gateway, supervisor (one that does not lead), leader, host "
            "(supervisor, workers and gateway at once), broker, client; with commas. A killed "
            "client comes back only when somebody starts its command again. With --compose a "
            "supervisor, a leader and a host are a container.",
        ),
    ] = "worker",
    every: Annotated[
        str | None,
        typer.Option(
            metavar="DURATIONS",
            help="How often each kind is hit, about: 2s for all, worker=1s,host=15s for some, "
            "2s,host=15s for both.",
            show_default="worker=2s, gateway=5s, supervisor=15s, leader=20s, host=15s, "
            "broker=45s, client=10s",
        ),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="How long.", show_default="until Ctrl-C"),
    ] = None,
    until: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLIENT",
            help="Until this client is done or gone; repeat it for several. Of clients, only these "
            "are hit.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="The same seed gives the same moments.", show_default="made up"),
    ] = None,
    pause: Annotated[
        bool,
        typer.Option("--pause", help="Stop some with SIGSTOP for a while instead of killing them."),
    ] = False,
    pause_for: Annotated[
        str, typer.Option(metavar="DURATION", help="How long one is stopped.")
    ] = "3s",
    pause_share: Annotated[
        float,
        typer.Option(min=0, max=1, help="With --pause: the share of strikes that stop; 1 for all."),
    ] = 0.5,
    patience: Annotated[
        str, typer.Option(metavar="DURATION", help="In which everything hit must be back.")
    ] = "60s",
    no_mercy: Annotated[
        bool,
        typer.Option("--no-mercy", help="Hit also the last supervisor that could revive others."),
    ] = False,
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write each event as a line of JSON, too.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document at the end, nothing else.")
    ] = False,
) -> None:
    """Kills parts of a cluster with SIGKILL at random moments, and tells when they are back.

    What is not back yet is not hit again. Ctrl-C ends it in order; a second one does not wait for
    what is not back. Exit code 1: something was not back within --patience.
    """
    from booksan.chaos.durations import parse_duration
    from booksan.chaos.kinds import parse_every, parse_targets
    from booksan.chaos.report import Report, show_summary, summary
    from booksan.chaos.run import Chaos, ChaosOptions, Stop

    targets = parse_targets(target)
    seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    options = ChaosOptions(
        parse_every(every, targets),
        seed,
        parse_duration("--for", duration) if duration else None,
        tuple(until or ()),
        pause_share if pause else 0.0,
        parse_duration("--pause-for", pause_for),
        parse_duration("--patience", patience),
        not no_mercy,
    )
    report = Report((lambda _: None) if as_json else _say, log)
    stop = Stop()
    heed(stop, signal.SIGINT, signal.SIGTERM)
    try:
        looker, token_file = _cluster_to_hit(config, data_dir, compose)
        seconds = Chaos(looker, options, report, stop, token_file).run()
    finally:
        report.close()
    found = summary(report.wounds, seed, seconds)
    code = EXIT_NOT_BACK if found["late"] or found["not_back"] else 0
    if as_json:
        sys.stdout.write(json.dumps(found | {"exit_code": code}, indent=2) + "\n")
    else:
        from booksan_client.terminal import PatientConsole

        show_summary(PatientConsole(), found)
    raise typer.Exit(code)


def _cluster_to_hit(
    config: str | None, data_dir: Path | None, compose: str | None
) -> "tuple[Looker, Path | None]":
    """With the file of its operator's token; without one the token is in the environment."""
    from booksan.chaos.containers import ContainerLooker
    from booksan.chaos.view import Looker
    from booksan.cluster.cli import existing_cluster
    from booksan.cluster.start import OPERATOR_TOKEN_FILE
    from booksan.errors import UsageError

    if compose is None:
        directory = existing_cluster(config, data_dir)
        return Looker(directory), directory / OPERATOR_TOKEN_FILE
    if config is not None or data_dir is not None:
        raise UsageError("--compose names the cluster; leave out CONFIG and --data-dir")
    return ContainerLooker(compose), None


def _say(line: str) -> None:
    from booksan_client.terminal import say

    say(line)
