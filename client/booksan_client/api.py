"""Every path of a gateway as a typed call."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from booksan_client.caller import Caller
from booksan_client.dataset import Dataset, ParamValue
from booksan_client.errors import Refused, ServerError
from booksan_client.status import Status
from booksan_client.wire import READ_TIMEOUT, Reply, Request, Sink

#: Seconds that a server holds an answer back at most.
LONGEST_WAIT = 25.0

T = TypeVar("T")


@dataclass(frozen=True)
class Page:
    """The first rows of an answer."""

    query: str
    about: str
    complete: bool
    total: int
    columns: Mapping[str, str]
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class Taken:
    """What a batch turned out to hold."""

    rows: int
    rejected: int


class Api:
    """What any server is asked about data sets and clients."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller

    def close(self) -> None:
        self.caller.close()

    def health(self) -> dict[str, Any]:
        return self._get("/v1/health", dict)

    def dataset(self, name: str) -> Dataset:
        return self._get(f"/v1/datasets/{quote(name, safe='')}", Dataset.from_json)

    def datasets(self) -> list[Dataset]:
        return self._get(
            "/v1/datasets", lambda found: [Dataset.from_json(each) for each in found["datasets"]]
        )

    def clients(self) -> dict[str, Any]:
        """All clients of all homes; only for the operator."""
        return self._get("/v1/clients", lambda found: {"missing": [], **found})

    def client(self, id: str, secret: str | None, ticket: str | None = None) -> "ClientApi":
        return ClientApi(self.caller, id, secret, ticket)

    def _get(self, path: str, make: Callable[[Any], T]) -> T:
        return _made(self.caller.call(Request("GET", path)), make)


class ClientApi:
    """What a client asks about its own run, with its secret; the operator needs none.

    The ticket says where the run's home is, whatever became of the topology since it began. One
    that is refused was signed before the cluster changed its secret: the present one is asked for.
    """

    def __init__(
        self, caller: Caller, id: str, secret: str | None, ticket: str | None = None
    ) -> None:
        self.caller = caller
        self.id = id
        self.ticket = ticket
        self._secret = secret
        self._base = f"/v1/clients/{quote(id, safe='')}"

    @property
    def _headers(self) -> dict[str, str]:
        return self._proof | ({"Booksan-Ticket": self.ticket} if self.ticket else {})

    @property
    def _proof(self) -> dict[str, str]:
        return {"Booksan-Secret": self._secret} if self._secret else {}

    def apart(self) -> "ClientApi":
        """The same calls over connections of their own, which can be closed alone."""
        return ClientApi(self.caller.another(), self.id, self._secret, self.ticket)

    def create(
        self,
        dataset: str,
        params: Mapping[str, ParamValue],
        columns: Mapping[str, tuple[str, ...]],
    ) -> tuple[Status, bool]:
        """The run's status, and whether it was begun just now; its ticket is kept."""
        self.ticket = None
        document = {
            "id": self.id,
            "dataset": dataset,
            "params": dict(params),
            "columns": {name: list(names) for name, names in columns.items()},
        }
        reply = self._call("POST", "/v1/clients", document)
        status = _made(reply, Status.from_json)
        self.ticket = status.ticket
        return status, reply.status == 201

    def put(
        self,
        source: str,
        number: int,
        data: bytes,
        *,
        permit: str,
        encoding: str | None = None,
    ) -> Taken:
        headers = {
            "Content-Type": "text/csv",
            **({"Content-Encoding": encoding} if encoding else {}),
        }
        path = f"{self._base}/sources/{quote(source, safe='')}/batches/{number}"
        reply = self._permitted(
            source, permit, lambda signed: Request("PUT", path, {**headers, **signed}, data)
        )
        return _made(reply, lambda found: Taken(int(found["rows"]), int(found["rejected"])))

    def end(self, source: str, batches: int, *, permit: str) -> None:
        path = f"{self._base}/sources/{quote(source, safe='')}/end"
        headers = {"Content-Type": "application/json"}
        body = json.dumps({"batches": batches}).encode()
        self._permitted(
            source,
            permit,
            lambda signed: Request("POST", path, {**headers, **signed}, body, READ_TIMEOUT),
        )

    def status(self, *, seen: str | None = None, wait: float = 0.0, stages: bool = False) -> Status:
        """With `seen` only when the version differs, or when `wait` seconds are over."""
        words: dict[str, str] = {}
        if stages:
            words["stages"] = "true"
        if seen is not None and wait > 0:
            words |= {"wait": f"{min(wait, LONGEST_WAIT):g}", "seen": seen}
        query = f"?{urlencode(words)}" if words else ""
        return _made(self._call("GET", f"{self._base}{query}"), Status.from_json)

    def page(self, query: str, limit: int, offset: int = 0) -> Page:
        words = urlencode({"format": "page", "limit": limit, "offset": offset})
        reply = self._call("GET", f"{self._base}/results/{quote(query, safe='')}?{words}")
        return _made(reply, _page)

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
        return _made(reply, lambda found: str(found["how"]))

    def _stream(self, path: str, sink: Callable[[], Sink]) -> None:
        self._send(lambda: Request("GET", path, self._headers), sink)

    def _call(self, method: str, path: str, document: Mapping[str, Any] | None = None) -> Reply:
        headers, body = {}, None
        if document is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(document).encode()
        return self._send(
            lambda: Request(method, path, {**self._headers, **headers}, body, READ_TIMEOUT)
        )

    def _send(self, make: Callable[[], Request], sink: Callable[[], Sink] | None = None) -> Reply:
        try:
            return self.caller.call(make(), sink)
        except Refused as error:
            if error.code != "wrong_ticket" or self.ticket is None:
                raise
        self._renew()
        return self.caller.call(make(), sink)

    def _permitted(
        self, source: str, permit: str, make: Callable[[Mapping[str, str]], Request]
    ) -> Reply:
        """A permit that was given and is not taken is of an earlier secret too."""
        try:
            return self.caller.call(make({**self._headers, "Booksan-Permit": permit}))
        except Refused as error:
            if error.code not in ("wrong_ticket", "not_yet"):
                raise
            renewed = self._renew().permits.get(source)
            if renewed is None:
                raise
        return self.caller.call(make({**self._headers, "Booksan-Permit": renewed}))

    def _renew(self) -> Status:
        """Ticket and permits as the home signs them now."""
        request = Request("GET", self._base, self._proof, None, READ_TIMEOUT)
        status = _made(self.caller.call(request), Status.from_json)
        self.ticket = status.ticket
        return status


def spec_in(ticket: str) -> str:
    """What a ticket says of the run, without the signature, which changes with the secret."""
    return ticket.partition(".")[0]


def _page(found: Any) -> Page:
    return Page(
        query=str(found["query"]),
        about=str(found["about"]),
        complete=bool(found["complete"]),
        total=int(found["total"]),
        columns=dict(found["columns"]),
        rows=list(found["rows"]),
    )


def _made(reply: Reply, make: Callable[[Any], T]) -> T:
    try:
        return make(json.loads(reply.body))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ServerError(
            f"the server's answer is not that of a booksan gateway ({error!r}); "
            "is the address right?"
        ) from error
