"""A gateway that only pretends: real sockets, runs in memory, and faults on order."""

import gzip
import itertools
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

DATASET = {
    "name": "birds",
    "version": 1,
    "sources": [
        {"name": "nests", "file_name": "nests.csv", "needed": ["Name"], "delimiter": ","},
        {"name": "eggs", "file_name": "eggs.csv", "needed": ["Nest", "Size"], "delimiter": ","},
    ],
    "params": [
        {"name": "q1.top", "default": 3, "help": "how many", "low": 0, "high": 100},
        {"name": "q1.share", "default": 0.5, "help": "of all", "low": None, "high": 1},
        {"name": "q1.kind", "default": "any", "help": "of bird", "low": None, "high": None},
    ],
    "queries": [
        {"name": "q1", "about": "eggs", "columns": {"name": "TEXT", "n": "INTEGER"}, "order": ["n"]}
    ],
}
ANSWER = b"name,n\nheron,2\nwren,5\n"
REJECTED = b"source,row,reason\neggs,1,too few fields\n"


@dataclass(frozen=True)
class Seen:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    status: int
    document: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None

    @property
    def body(self) -> bytes:
        return self.raw if self.raw is not None else json.dumps(self.document).encode()


def error(status: int, code: str = "odd", how: str | None = None, **headers: str) -> Answer:
    found = {"code": code, "message": f"it is {code}", **({"how": how} if how else {})}
    return Answer(status, {"error": found}, {k.replace("_", "-"): v for k, v in headers.items()})


@dataclass
class Run:
    """What the pretended home knows of a client."""

    spec: Any
    secret: str
    batches: dict[str, dict[int, bytes]] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    failed: str | None = None
    gone: str | None = None
    stalled: Any = None
    #: What the home says some shard lacks; None as an older server, which does not say it.
    resend: Any = None
    #: Instead of the one that is made up.
    ticket: str | None = None
    #: All has been sent, but a stage is not done.
    waits: bool = False
    #: A run that is begun anew has another ticket.
    number: int = field(default_factory=itertools.count().__next__)
    #: What ticket and permits are signed with.
    key: str = "key"

    @property
    def generation(self) -> int:
        return int(self.spec.get("generation", 0))

    def source(self, name: str) -> dict[str, Any]:
        have, length = self.batches.get(name, {}), self.ends.get(name)
        top = length if length is not None else max(have, default=-1) + 1
        missing = [number for number in range(top) if number not in have]
        rows = sum(data.count(b"\n") for data in have.values())
        return {
            "batches": len(have),
            "of_batches": length,
            "rows": rows,
            "rejected": sum(data.count(b"bad") for data in have.values()),
            "complete": length is not None and not missing,
            "missing": missing[:10],
        }

    def status(self, id: str) -> dict[str, Any]:
        sources = {name: self.source(name) for name in ("nests", "eggs")}
        done = all(each["complete"] for each in sources.values()) and not self.waits
        uploading = any(each["of_batches"] is None for each in sources.values())
        state = "failed" if self.failed else "done" if done else "working"
        found = {
            "id": id,
            "dataset": "birds",
            "dataset_version": 1,
            "params": self.spec["params"],
            "state": "uploading" if state == "working" and uploading else state,
            "failed": self.failed,
            "expires": 2**31,
            "ticket": self.ticket or f"ticket {self.number} of {id}.{self.key}",
            "generation": self.generation,
            "permits": {
                name: f"{name}.{self.key}"
                for name, given in (("nests", True), ("eggs", sources["nests"]["complete"]))
                if given
            },
            "sources": sources,
            "answers": {"q1": {"rows": 2, "complete": done}},
        }
        return found | {"version": str(hash(json.dumps(found)))}


#: Looks at a request first; what it returns is the answer, unless it is None.
Fault = Callable[[Seen], Answer | None]


class FakeGateway:
    """Several may share `runs`: then any of them takes any request."""

    def __init__(self, runs: dict[str, Run] | None = None, port: int = 0) -> None:
        self.runs: dict[str, Run] = {} if runs is None else runs
        self.seen: list[Seen] = []
        self.fault: Fault = lambda seen: None
        self.dataset: Any = DATASET
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", port), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def puts(self) -> list[Seen]:
        return [seen for seen in self.seen if seen.method == "PUT"]

    def answer(self, seen: Seen) -> Answer:
        with self._lock:
            self.seen.append(seen)
        found = self.fault(seen)
        if found is not None:
            return found
        with self._lock:
            return self._answer(seen)

    def _answer(self, seen: Seen) -> Answer:
        words = urlsplit(seen.path).path.strip("/").split("/")[1:]
        if words == ["health"]:
            return Answer(200, {"status": "ok", "host": "fake", "version": "0"})
        if words[0] == "datasets":
            if words == ["datasets"]:
                return Answer(200, {"datasets": [self.dataset]})
            if words[1:] == ["birds"]:
                return Answer(200, self.dataset)
            return error(404, "unknown_dataset")
        if words == ["clients"] and seen.method == "GET":
            clients = [
                {"id": id, "dataset": "birds", "state": "done", "expires": 0, "host": "fake"}
                for id in self.runs
            ]
            return Answer(200, {"clients": clients})
        if words == ["clients"]:
            return self._create(seen)
        return self._of_client(words[1], words[2:], seen)

    def _create(self, seen: Seen) -> Answer:
        spec = json.loads(seen.body)
        run = self.runs.get(spec["id"])
        secret = seen.headers["booksan-secret"]
        newer = run is not None and not run.gone and int(spec.get("generation", 0)) > run.generation
        if run is None or newer:
            self.runs[spec["id"]] = run = Run(spec, secret)
            return Answer(201, run.status(spec["id"]))
        if run.gone:
            return error(410, "gone", run.gone)
        if run.secret != secret:
            return error(403, "wrong_secret")
        return Answer(200, run.status(spec["id"])) if run.spec == spec else error(409, "other_spec")

    def _of_client(self, id: str, words: list[str], seen: Seen) -> Answer:
        run = self.runs.get(id)
        if run is None:
            return error(404, "unknown_client")
        if seen.headers.get("booksan-secret") not in (run.secret, None):
            return error(403, "wrong_secret")
        if seen.method == "DELETE":
            run.gone = run.gone or "cancelled"
            return Answer(200, {"how": run.gone})
        if words == ["acknowledge"]:
            run.gone = run.gone or "done"
            return Answer(200, {"how": run.gone})
        if run.gone:
            return error(410, "gone", run.gone)
        return self._of_run(run, id, words, seen)

    def _of_run(self, run: Run, id: str, words: list[str], seen: Seen) -> Answer:
        query = parse_qs(urlsplit(seen.path).query)
        form = query.get("format", ["page"])[0]
        match words:
            case []:
                stages = {"q1-sum": dict.fromkeys(("shards", "batches", "rows", "bytes"), 1)}
                stages["q1-sum"] |= {"of_batches": 2, "done": False}
                more = {"stages": stages, "stalled": run.stalled} if "stages" in query else {}
                if more and run.resend is not None:
                    more["resend"] = run.resend
                return Answer(200, run.status(id) | more)
            case ["sources", source, "batches", number]:
                data = seen.body
                if seen.headers.get("content-encoding") == "gzip":
                    data = gzip.decompress(data)
                run.batches.setdefault(source, {})[int(number)] = data
                return Answer(200, {"rows": data.count(b"\n"), "rejected": 0})
            case ["sources", source, "end"]:
                run.ends[source] = json.loads(seen.body)["batches"]
                return Answer(200, {})
            case ["results", "q1"] if form == "page":
                rows = [{"name": "heron", "n": 2}, {"name": "wren", "n": 5}]
                columns = {"name": "TEXT", "n": "INTEGER"}
                found = {"query": "q1", "about": "eggs", "complete": True, "total": 2}
                return Answer(200, found | {"offset": 0, "columns": columns, "rows": rows})
            case ["results", "q1"]:
                return Answer(200, raw=ANSWER)
            case ["rejected"]:
                return Answer(200, raw=REJECTED)
        return error(404, "unknown_path")


class _Server(ThreadingHTTPServer):
    # A handler waits on a kept connection until the client closes it.
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed does not wait for its answer."""


def _handler(gateway: FakeGateway) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def log_message(self, format: str, *words: object) -> None:
            pass

        def _take(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = gateway.answer(Seen(self.command, self.path, headers, body))
            if answer.status == 0:
                # No answer at all, and the connection is closed.
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if "Content-Length" not in answer.headers:
                self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)
            if "Content-Length" in answer.headers:
                self.close_connection = True

        do_GET = do_PUT = do_POST = do_DELETE = _take  # noqa: N815 - the names that http.server calls

    return Handler
