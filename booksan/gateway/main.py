"""The gateway's process, from the fork to its end."""

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple
from urllib.parse import urlsplit

import uvicorn
from starlette.types import ASGIApp

from booksan import logs, news
from booksan.errors import EXIT_CANNOT_START, UsageError
from booksan.gateway.access import Access, access_from_environment
from booksan.gateway.app import OK, Health, routes, words_of
from booksan.gateway.boundary import ErrorBoundary, names_of
from booksan.gateway.config import (
    Address,
    GatewayConfig,
    read_address,
    read_gateway_config,
    write_address,
)
from booksan.gateway.protocol import KEEP_ALIVE_SECONDS, Connections, make_room_for, protocol_class
from booksan.gateway.service import Service
from booksan.heartbeat import beat, quiet_collector
from booksan.shards import ShardId
from booksan.tickets import load_keys

log = logging.getLogger("booksan.gateway")

#: Seconds that an address may be in use by a gateway that is just dying.
BIND_SECONDS = 10.0
#: The same for the port of the last time, which is only preferred.
OLD_PORT_SECONDS = 2.0
#: Seconds between two tries.
BIND_PAUSE = 0.1
#: Seconds for what is in hand, from SIGTERM on; the supervisor waits a little longer.
DRAIN_SECONDS = 4
#: Seconds between two tries to say where it listens.
ANNOUNCE_SECONDS = 2.0
#: Seconds between two looks at whether it can serve, and until people hear why it cannot: hosts
#: that start together wait for each other for a moment.
HEALTH_PAUSE = 0.25
WAITS_SECONDS = 3.0
#: Seconds after which a thread lets another have Python's lock.
SWITCH_SECONDS = 0.0005
#: Seconds between two signs of life.
PULSE_SECONDS = 1.0
#: Files with the certificate and its key, if the gateway shall speak TLS.
TLS_CERT = "BOOKSAN_TLS_CERT"
TLS_KEY = "BOOKSAN_TLS_KEY"
#: Connections that wait to be accepted.
BACKLOG = 1024


class Server(uvicorn.Server):
    """Leaves the signals to this process: those of a terminal are not for it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def run(data_dir: Path, stage: str, shard: int) -> int:
    """The entry that the supervisor calls in the forked child."""
    logs.set_up(str(ShardId(stage, shard)))
    # Threads that parse must not keep the one that reads from the network waiting.
    sys.setswitchinterval(SWITCH_SECONDS)
    # Their warnings are about clients that send nonsense, or leave in the middle of an answer.
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).setLevel(logging.ERROR)
    stop = StopSignal()
    try:
        config = read_gateway_config(data_dir)
        keys = load_keys(data_dir)
        access = access_from_environment(config, keys)
        life = GatewayProcess(data_dir, config, access, keys, certificate_from_environment())
        listener = listen(data_dir, config.address)
    except UsageError as error:
        log.error("cannot start: %s", error)
        return EXIT_CANNOT_START
    with listener:
        asyncio.run(life.run(listener, stop))
    return 0


class StopSignal:
    """SIGTERM, from the first moment on: ends the process, or tells whoever serves by then."""

    def __init__(self) -> None:
        self.tell: Callable[[], None] = sys.exit
        signal.signal(signal.SIGTERM, self._catch)

    def _catch(self, signum: int, frame: FrameType | None) -> None:
        self.tell()


class GatewayProcess:
    """One gateway process, from the moment it can listen."""

    def __init__(
        self,
        data_dir: Path,
        config: GatewayConfig,
        access: Access,
        keys: Sequence[bytes],
        certificate: "Certificate | None",
    ) -> None:
        self._data_dir = data_dir
        self._scheme = "https" if certificate else "http"
        self._service = Service(data_dir, config, access, keys)
        self._connections = Connections(
            make_room_for(config.max_connections), config.header_seconds
        )
        self._server = uvicorn_server(
            ErrorBoundary(
                routes(self._service),
                self._connections,
                names_of(config, has_token=access.has_token),
            ),
            self._connections,
            certificate,
        )

    async def run(self, listener: socket.socket, stop: StopSignal) -> None:
        loop = asyncio.get_running_loop()

        def tell() -> None:
            loop.call_soon_threadsafe(self._stop)

        stop.tell = tell
        quiet_collector()
        tasks = [asyncio.create_task(self._announce(listener)), asyncio.create_task(_live())]
        try:
            await self._server.serve(sockets=[listener])
        finally:
            for task in tasks:
                task.cancel()
            await self._service.close()

    def _stop(self) -> None:
        self._service.stopping.set()
        self._server.should_exit = True

    async def _announce(self, listener: socket.socket) -> None:
        """Says where it listens as soon as it does; on a full disk, when there is room."""
        while not self._server.started:
            await asyncio.sleep(0.005)
        while True:
            try:
                write_address(self._data_dir, url_of(listener, self._scheme), os.getpid())
            except OSError as error:
                log.warning("gateway-address.json cannot be written: %s", error.strerror)
                await asyncio.sleep(ANNOUNCE_SECONDS)
            else:
                break
        await self._tell_when_ready(url_of(listener, self._scheme))

    async def _tell_when_ready(self, url: str) -> None:
        """The supervisor tells people; also what it waits for, if that takes long."""
        health = Health(self._service)
        began, told = time.monotonic(), ""
        while (found := await health.snapshot()).status != OK:
            why = words_of(found)
            if why != told and time.monotonic() - began >= WAITS_SECONDS:
                news.waits(why)
                told = why
            await asyncio.sleep(HEALTH_PAUSE)
        news.ready(url)


async def _live() -> None:
    """Signs of life, as long as the event loop turns."""
    while True:
        beat()
        await asyncio.sleep(PULSE_SECONDS)


class Certificate(NamedTuple):
    """For TLS, in PEM."""

    chain: str
    key: str


def certificate_from_environment() -> Certificate | None:
    """Raises UsageError if it cannot be used."""
    chain, key = os.environ.get(TLS_CERT, ""), os.environ.get(TLS_KEY, "")
    if not chain and not key:
        return None
    if not chain or not key:
        raise UsageError(f"TLS needs both {TLS_CERT} and {TLS_KEY}; set both, or none")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(chain, key)
    except OSError as error:
        raise UsageError(
            f"{chain} ({TLS_CERT}) and {key} ({TLS_KEY}) are no certificate and key in PEM: "
            f"{error.strerror or error}"
        ) from None
    return Certificate(chain, key)


def uvicorn_server(
    app: ASGIApp, connections: Connections, certificate: Certificate | None = None
) -> Server:
    return Server(
        uvicorn.Config(
            app,
            http=protocol_class(connections),
            ws="none",
            loop="asyncio",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=BACKLOG,
            ssl_certfile=certificate.chain if certificate else None,
            ssl_keyfile=certificate.key if certificate else None,
            # The watch of a connection ends it a little earlier.
            timeout_keep_alive=KEEP_ALIVE_SECONDS + 5,
            timeout_graceful_shutdown=DRAIN_SECONDS,
        )
    )


def listen(data_dir: Path, address: Address) -> socket.socket:
    """A socket that listens; raises UsageError if the address cannot be had."""
    if address.port == 0 and (old := _old_port(data_dir, address.host)):
        with contextlib.suppress(UsageError):
            return _listen(Address(address.host, old), OLD_PORT_SECONDS)
    return _listen(address, BIND_SECONDS)


def _listen(address: Address, seconds: float) -> socket.socket:
    deadline = time.monotonic() + seconds
    while True:
        try:
            return socket.create_server(
                (address.host, address.port),
                family=socket.AF_INET6 if ":" in address.host else socket.AF_INET,
                backlog=BACKLOG,
            )
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise UsageError(
                    f"{address.host}:{address.port} cannot be listened on: {error.strerror}; "
                    'choose another "listen" in gateway.json'
                ) from None
        time.sleep(BIND_PAUSE)


def _old_port(data_dir: Path, host: str) -> int | None:
    found = read_address(data_dir)
    if found is None:
        return None
    try:
        parts = urlsplit(found["url"])
        return parts.port if parts.hostname == _reachable(host) else None
    except ValueError:
        return None


def _reachable(host: str) -> str:
    """Where those on this host find a gateway that listens on all addresses."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def url_of(listener: socket.socket, scheme: str = "http") -> str:
    host, port = listener.getsockname()[:2]
    host = _reachable(host)
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
