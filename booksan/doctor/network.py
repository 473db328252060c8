"""The queues, the ports of a topology, and the clocks of its hosts."""

import http.client
import json
import socket
import time
from collections.abc import Iterable, Iterator
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from booksan.cluster.credentials import spool_directory
from booksan.cluster.ports import why_taken
from booksan.doctor.finding import Finding, fail, ok, warn
from booksan.doctor.machine import CLOCK_SECONDS
from booksan.errors import BooksanError
from booksan.spec import HOME
from booksan.stages.graph import queue_name
from booksan.topology.model import Address, HostPlan
from booksan.transport import masked, open_transport

_ASK_SECONDS = 3.0


class Answer(NamedTuple):
    """What a gateway said of itself."""

    host: str
    status: str
    #: How far its clock is ahead of ours, in seconds; None if it does not say.
    ahead: float | None


def check_queues(address: str) -> Finding:
    spool = spool_directory(address)
    if spool is not None:
        return ok("queues", f"{masked(address)}, on this disk")
    try:
        with open_transport(address) as transport:
            transport.depth(queue_name(HOME, 0))
    except BooksanError as error:
        advice = "start the broker, or set BOOKSAN_QUEUES to the address of one that runs"
        return fail("queues", f"{masked(address)}: {error}", advice)
    return ok("queues", f"{masked(address)} answers")


def check_hosts(hosts: Iterable[HostPlan]) -> Iterator[Finding]:
    for host in hosts:
        answer = ask(host.gateway)
        if answer is not None and answer.host == host.name:
            yield from _running(host, answer)
        else:
            yield from _ports(host)


def ask(gateway: Address) -> Answer | None:
    """None if nothing there speaks like a gateway."""
    connection = http.client.HTTPConnection(gateway.host, gateway.port, timeout=_ASK_SECONDS)
    try:
        connection.request("GET", "/v1/health")
        response = connection.getresponse()
        found = json.loads(response.read(65536))
        date = response.headers.get("Date")
        ahead = parsedate_to_datetime(date).timestamp() - time.time() if date else None
        return Answer(str(found["host"]), str(found["status"]), ahead)
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return None
    finally:
        connection.close()


def _running(host: HostPlan, answer: Answer) -> Iterator[Finding]:
    what = f"host {host.name}"
    if answer.status == "ok":
        yield ok(what, f"is at work, {host.url}")
    else:
        yield fail(what, f"its gateway {host.url} says: {answer.status}", "look at its logs")
    yield from check_host_clock(host.name, answer.ahead)


def check_host_clock(name: str, ahead: float | None) -> Iterator[Finding]:
    # The header has whole seconds, so one more is nothing.
    if ahead is not None and abs(ahead) > CLOCK_SECONDS + 1:
        yield warn(
            f"clock of {name}",
            f"is {ahead:+.0f} s off this machine's",
            "set the clocks of all hosts by NTP: runs expire by them",
        )


def _ports(host: HostPlan) -> Iterator[Finding]:
    what = f"host {host.name}"
    wanted = ((host.listen, socket.SOCK_STREAM), (host.address, socket.SOCK_DGRAM))
    taken = [(one, why) for one, kind in wanted if (why := why_taken(one, kind))]
    if not taken:
        yield ok(what, f"does not run; {host.listen} and {host.address} (UDP) are free")
    for address, why in taken:
        if _is_here(address):
            yield fail(
                what,
                f"{address}: {why}",
                "stop what uses it, change the topology, or use `cluster up --any-ports`",
            )
        else:
            yield warn(
                what,
                f"does not answer at {host.url}, and {address} is not of this machine",
                "run the doctor there",
            )


def _is_here(address: Address) -> bool:
    """An address that this machine can listen on, whether or not the port is taken."""
    return why_taken(address._replace(port=0), socket.SOCK_STREAM) is None
