"""Whether a host is at work: its supervisor reports running, its gateway answers."""

import http.client
import json
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from booksan.cluster.record import HostRecord
from booksan.errors import BooksanError
from booksan.supervisor.logs import LOGS, SUPERVISOR_LOG, last_line
from booksan.supervisor.states import HostState
from booksan.supervisor.status import read_status

#: Seconds for one question to a gateway.
_ASK_SECONDS = 3.0


@dataclass(frozen=True)
class Starting:
    """A host that was started, and where in the log its output begins."""

    name: str
    record: HostRecord
    log_offset: int


def waits_for(host: Starting) -> str | None:
    """What the host still lacks, None when it is at work; BooksanError when it has failed."""
    data_dir = Path(host.record.data_dir)
    # A leader may have been quicker to start it: then the process that was started here has ended.
    process = host.record.supervisor()
    pids = [one.pid for one in (host.record.process, process) if one is not None]
    status = read_status(data_dir)
    mine = status if status is not None and status.pid in pids else None
    if mine is not None and mine.error:
        raise BooksanError(f"host {host.name} cannot start: {mine.error} (see {data_dir / LOGS})")
    if process is None:
        words = last_line(data_dir / LOGS / SUPERVISOR_LOG, host.log_offset)
        raise BooksanError(f"host {host.name} ended: {words} (see {data_dir / LOGS})")
    if mine is None or mine.state is not HostState.RUNNING:
        return "its supervisor has not started all workers"
    return ask_gateway(host.record.gateway, host.name)


def ask_gateway(url: str, name: str) -> str | None:
    """Why the gateway of a host does not serve; None if it does."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_ASK_SECONDS)
    try:
        connection.request("GET", "/v1/health")
        answer = connection.getresponse()
        found = json.loads(answer.read(65536))
    except (OSError, http.client.HTTPException, ValueError) as error:
        return f"its gateway {url} does not answer: {error}"
    finally:
        connection.close()
    if not isinstance(found, dict) or found.get("host") != name:
        return f"{url} is answered by something else than its gateway"
    if answer.status != http.client.OK:
        return f"its gateway {url} says: {found.get('status', answer.status)}"
    return None
