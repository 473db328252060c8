"""Every path of a gateway as a typed call; and the latest news of a run, by long polls."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from booksan_client.caller import Caller
from booksan_client.wire import READ_TIMEOUT, Reply, Request, Sink
from booksan_common.errors import Refused, ServerError
from booksan_common.params import ParamValue
from booksan_common.shapes import (
    Answer,
    Clients,
    Creation,
    Dataset,
    Datasets,
    End,
    Gone,
    Health,
    Receipt,
    Status,
)

#: Seconds that a server holds an answer back at most.
LONGEST_WAIT = 25.0

T = TypeVar("T")


class Api:
    """What any server is asked about data sets and clients."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller

    def close(self) -> None:
        self.caller.close()

    def health(self) -> Health:
        return self._get("/v1/health", Health)

    def dataset(self, name: str) -> Dataset:
        return self._get(f"/v1/datasets/{quote(name, safe='')}", Dataset).checked()

    def datasets(self) -> list[Dataset]:
        return [each.checked() for each in self._get("/v1/datasets", Datasets).datasets]

    def clients(self) -> Clients:
        """All clients of all homes; only for the operator."""
        return self._get("/v1/clients", Clients)

    def client(self, id: str, secret: str | None, ticket: str | None = None) -> "ClientApi":
        return ClientApi(self.caller, id, secret, ticket)

    def _get(self, path: str, kind: type[T]) -> T:
        return _read(self.caller.call(Request("GET", path)), kind)


class _Pass:
    """What the home has signed for a run, the same for all threads that work on it."""

    def __init__(self, ticket: str | None) -> None:
        self.lock = threading.Lock()
        self.ticket = ticket
        self.permits: Mapping[str, str] = {}

    def take(self, status: Status) -> None:
        self.ticket, self.permits = status.ticket, status.permits

    def headers(self, source: str | None) -> dict[str, str]:
        ticket, permit = self.ticket, self.permits.get(source or "")
        return {
            **({"Booksan-Ticket": ticket} if ticket else {}),
            **({"Booksan-Permit": permit} if permit else {}),
        }


class ClientApi:
    """What a client asks about its own run, with its secret; the operator needs none.

    The ticket says where the run's home is, whatever became of the topology since it began, so
    every request carries it. One that the servers do not accept any more is replaced.
    """

    def __init__(
        self,
        caller: Caller,
        id: str,
        secret: str | None,
        ticket: str | None = None,
        *,
        shared: _Pass | None = None,
    ) -> None:
        self.caller = caller
        self.id = id
        self._secret = {"Booksan-Secret": secret} if secret else {}
        self._pass = shared or _Pass(ticket)
        self._base = f"/v1/clients/{quote(id, safe='')}"

    @property
    def ticket(self) -> str | None:
        return self._pass.ticket

    def apart(self) -> "ClientApi":
        """The same calls over connections of their own, which can be closed alone."""
        secret = self._secret.get("Booksan-Secret")
        return ClientApi(self.caller.another(), self.id, secret, shared=self._pass)

    def create(
        self,
        dataset: str,
        params: Mapping[str, ParamValue],
        columns: Mapping[str, tuple[str, ...]],
        generation: int = 0,
    ) -> Status:
        """Begins the run, or a further generation of it that replaces the earlier ones."""
        self._pass.ticket, self._pass.permits = None, {}
        creation = Creation(
            id=self.id, dataset=dataset, params=params, columns=columns, generation=generation
        )
        return self._status(self._call("POST", "/v1/clients", creation))

    def put(self, source: str, number: int, data: bytes, *, encoding: str | None = None) -> Receipt:
        headers = {"Content-Type": "text/csv"}
        if encoding:
            headers["Content-Encoding"] = encoding
        path = f"{self._base}/sources/{quote(source, safe='')}/batches/{number}"
        return _read(self._send(Request("PUT", path, headers, data), source=source), Receipt)

    def end(self, source: str, batches: int) -> None:
        path = f"{self._base}/sources/{quote(source, safe='')}/end"
        self._call("POST", path, End(batches), source=source)

    def status(self, *, seen: str | None = None, wait: float = 0.0, stages: bool = False) -> Status:
        """With `seen` only when the version differs, or when `wait` seconds are over."""
        words: dict[str, str] = {}
        if stages:
            words["stages"] = "true"
        if seen is not None and wait > 0:
            words |= {"wait": f"{min(wait, LONGEST_WAIT):g}", "seen": seen}
        query = f"?{urlencode(words)}" if words else ""
        return self._status(self._call("GET", f"{self._base}{query}"))

    def page(self, query: str, limit: int, offset: int = 0) -> Answer:
        words = urlencode({"format": "page", "limit": limit, "offset": offset})
        reply = self._call("GET", f"{self._base}/results/{quote(query, safe='')}?{words}")
        return _read(reply, Answer)

    def answer(self, query: str, form: str, sink: Callable[[], Sink]) -> None:
        """The whole file; `sink` is asked for anew for each try."""
        self._stream(f"{self._base}/results/{quote(query, safe='')}?format={quote(form)}", sink)

    def rejected(self, sink: Callable[[], Sink]) -> None:
        """All rejected rows as CSV."""
        self._stream(f"{self._base}/rejected?format=csv", sink)

    def acknowledge(self) -> str:
        return self._how(self._call("POST", f"{self._base}/acknowledge"))

    def cancel(self) -> str:
        return self._how(self._call("DELETE", self._base))

    def _how(self, reply: Reply) -> str:
        return _read(reply, Gone).how

    def _status(self, reply: Reply) -> Status:
        status = _read(reply, Status).checked()
        self._pass.take(status)
        return status

    def _stream(self, path: str, sink: Callable[[], Sink]) -> None:
        self._send(Request("GET", path), sink)

    def _call(
        self,
        method: str,
        path: str,
        document: msgspec.Struct | None = None,
        *,
        source: str | None = None,
    ) -> Reply:
        headers, body = {}, None
        if document is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(msgspec.to_builtins(document)).encode()
        return self._send(Request(method, path, headers, body, READ_TIMEOUT), source=source)

    def _send(
        self, request: Request, sink: Callable[[], Sink] | None = None, source: str | None = None
    ) -> Reply:
        ticket = self._pass.ticket
        try:
            return self._try(request, sink, source)
        except Refused as error:
            if error.code != "wrong_ticket" or ticket is None:
                raise
        self._renew(ticket)
        return self._try(request, sink, source)

    def _try(self, request: Request, sink: Callable[[], Sink] | None, source: str | None) -> Reply:
        headers = {**self._secret, **self._pass.headers(source), **request.headers}
        return self.caller.call(replace(request, headers=headers), sink)

    def _renew(self, refused: str) -> None:
        """The cluster's secret was changed, say: without a ticket the home is found by the id."""
        with self._pass.lock:
            if self._pass.ticket == refused:
                reply = self.caller.call(Request("GET", self._base, self._secret))
                self._status(reply)


def _read(reply: Reply, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(reply.body, type=kind)
    except (ValueError, RecursionError) as error:
        raise ServerError(
            f"the server's answer is not that of a booksan gateway ({error}); is the address right?"
        ) from error


# The latest that the server says of a run, by long polls in a thread of its own.

#: Seconds from one status to the next while batches go out.
CALM = 0.5
#: The same while something is waited for: at first, and as a share of the time it took so far.
EAGER = 0.02
EAGER_SHARE = 0.05
#: Seconds between two statuses with all stages, which ask all hosts, at most: for stalls.
STAGES = 30.0


class Follower:
    """Asks again and again; what goes wrong is raised in the thread that looks."""

    def __init__(self, api: ClientApi, first: Status, *, stages_every: float) -> None:
        """`stages_every`: seconds between two statuses with all stages."""
        self._api = api.apart()
        self._latest = first
        self._stages_every = stages_every
        #: Since when something is waited for, on the monotonic clock.
        self._eager_since: float | None = None
        self._error: Exception | None = None
        self._news = threading.Condition()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="follower", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Returns when the thread has ended; a poll that is under way is broken off."""
        self._stopped.set()
        with self._news:
            self._news.notify_all()
        self._api.caller.close()
        self._thread.join()

    def latest(self) -> Status:
        with self._news:
            if self._error is not None:
                raise self._error
            return self._latest

    def wait_for_news(self, seen: Status, seconds: float) -> None:
        """Until there is another status than `seen`, for that long at most."""
        with self._news:
            self._news.wait_for(lambda: self._error or self._latest is not seen, seconds)

    def hurry(self) -> None:
        """From now on something is waited for."""
        with self._news:
            self._eager_since = time.monotonic()
            self._news.notify_all()

    def calm_down(self) -> None:
        """Nobody waits for anything that a status could tell."""
        with self._news:
            self._eager_since = None

    def _follow(self) -> None:
        stages_at = time.monotonic()
        try:
            while not self._stopped.is_set():
                with_stages = time.monotonic() >= stages_at
                self._tell(self._ask(with_stages))
                if with_stages:
                    stages_at = time.monotonic() + self._stages_every
                self._pause()
        except Exception as error:  # noqa: BLE001 - raised where it is looked for
            with self._news:
                self._error = error
                self._news.notify_all()

    def _ask(self, with_stages: bool) -> Status:
        if with_stages:
            return self._api.status(stages=True)
        wait = min(LONGEST_WAIT, self._stages_every)
        return self._api.status(seen=self._latest.version, wait=wait)

    def _tell(self, status: Status) -> None:
        with self._news:
            self._latest = status
            self._news.notify_all()

    def _pause(self) -> None:
        """Ends early when somebody begins to wait."""
        with self._news:
            since = self._eager_since
            pause = CALM
            if since is not None:
                pause = min(CALM, max(EAGER, EAGER_SHARE * (time.monotonic() - since)))
            self._news.wait_for(lambda: self._eager_since != since or self._stopped.is_set(), pause)
