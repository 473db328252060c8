"""The cluster's own RabbitMQ: a keeper that starts the node and brings it back."""

import json
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from booksan.broker.files import require_server
from booksan.broker.node import end_leftovers
from booksan.cluster.paths import BrokerRecord, make_private
from booksan.cluster.processes import ProcessId, is_alive, send, spawn, uninterrupted, wait_gone
from booksan.errors import BooksanError
from booksan.host.handle import with_package
from booksan.host.logs import last_line, size

BROKER_FILE = "broker.json"
KEEPER_LOG = "keeper.log"

#: Seconds that an orderly end of the node may take.
END_SECONDS = 30.0


def start_broker(record: BrokerRecord, env: Mapping[str, str], seconds: float) -> None:
    """Start the keeper and wait until its node takes messages."""
    require_server()
    directory = Path(record.directory)
    make_private(directory)
    log = directory / KEEPER_LOG
    offset = size(log)
    command = [sys.executable, "-P", "-m", "booksan.broker", str(directory)]
    command += ["--port", str(record.port)]
    with uninterrupted():
        record.keeper = spawn(command, log, with_package(env), directory)
    deadline = time.monotonic() + seconds
    while not _is_ready(record):
        if not is_alive(record.keeper):
            raise BooksanError(f"the broker cannot start: {last_line(log, offset)} (see {log})")
        if time.monotonic() > deadline:
            raise BooksanError(
                f"the broker was not ready within {seconds:g} s: {last_line(log, offset)} "
                f"(see {log})"
            )
        time.sleep(0.05)


def broker_status(record: BrokerRecord) -> dict[str, Any]:
    """broker.json as the keeper wrote it; empty before that."""
    try:
        found = json.loads((Path(record.directory) / BROKER_FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def stop_broker(record: BrokerRecord) -> None:
    """The keeper ends its node; what does not end is killed."""
    keeper = record.keeper
    if keeper is not None and is_alive(keeper):
        send(keeper, signal.SIGTERM)
        for late in wait_gone([keeper], END_SECONDS):
            send(late, signal.SIGKILL)
            wait_gone([late], END_SECONDS)
    record.keeper = None
    end_leftovers(Path(record.directory))


def _is_ready(record: BrokerRecord) -> bool:
    found = broker_status(record)
    keeper = record.keeper
    # An earlier keeper's file is no news.
    return bool(found.get("ready")) and keeper is not None and found.get("keeper") == keeper.pid


def keeper_of(record: BrokerRecord | None) -> ProcessId | None:
    return record.keeper if record is not None and is_alive(record.keeper) else None
