"""`booksan doctor`: all checks, on a terminal or as JSON."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

from booksan.cluster.credentials import queues_address
from booksan.cluster.places import hosts_directory
from booksan.cluster.registry import read_members
from booksan.doctor.company import check_secrets
from booksan.doctor.finding import Finding, Level, fail
from booksan.doctor.machine import check_machine
from booksan.doctor.network import check_hosts, check_queues
from booksan.doctor.versions import check_versions
from booksan.errors import BooksanError
from booksan.local.workspace import state_home
from booksan.topology.files import load_topology
from booksan.topology.members import company
from booksan_client.terminal import PatientConsole

EXIT_FAILED = 1
_COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


def doctor_command(config: str, data_dir: Path | None, *, as_json: bool) -> int:
    """The exit code: 0 when nothing failed."""
    findings = []
    console = PatientConsole()
    for finding in examine(config, data_dir):
        findings.append(finding)
        # At once: a broker that does not answer takes its time.
        if not as_json:
            _show(console, finding)
    if as_json:
        found = [finding._asdict() for finding in findings]
        sys.stdout.write(json.dumps({"ok": not _failed(findings), "findings": found}, indent=2))
        sys.stdout.write("\n")
    return EXIT_FAILED if _failed(findings) else 0


def examine(config: str, data_dir: Path | None) -> Iterator[Finding]:
    yield from check_versions()
    yield from check_machine((data_dir or state_home()).absolute())
    try:
        topology = load_topology(config)
        shared = hosts_directory(topology.name)
        address = queues_address(topology, os.environ, None, shared / "spool")
        yield check_queues(address)
        members = read_members(shared)
    except BooksanError as error:
        yield fail("topology", str(error), "mend the file, or name another with --config")
        return
    yield from check_hosts(company(topology, members).values())
    yield from check_secrets(members)


def _failed(findings: list[Finding]) -> bool:
    return any(finding.level is Level.FAIL for finding in findings)


def _show(console: Console, finding: Finding) -> None:
    line = Text.assemble(
        (f"{finding.level:<4}", _COLOURS[finding.level]), f"  {finding.what:<12} {finding.found}"
    )
    console.print(line, soft_wrap=True)
    if finding.advice:
        console.print(Text(f"      {finding.advice}"), soft_wrap=True)
