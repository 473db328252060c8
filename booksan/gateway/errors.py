"""From errors to answers: each one a status, a code for programs and a sentence for people."""

import logging
import math
import sqlite3
import time
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, UnsetType, to_builtins
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from booksan.errors import BooksanError, MessageError, NoSpace, QueuesFull, TransportError
from booksan.stages.dataset_errors import DataSetError
from booksan_common.files import NO_ROOM
from booksan_common.shapes import Error, Fault

log = logging.getLogger("booksan.gateway")

#: Seconds after which a client may try again what the machine, not the client, was in the way of.
RETRY_SECONDS = 1

#: Seconds between two lines in the log about the same trouble.
TELL_SECONDS = 10.0
_told: dict[str, float] = {}

_CODES = {404: "not_found", 405: "wrong_method"}


class Problem(BooksanError):
    """What a client is told instead of an answer."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        retry: int | None = None,
        how: str | UnsetType = UNSET,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        #: Of a run that is no more, how it ended.
        self.how = how
        #: Further headers of the answer.
        self.extra: Mapping[str, str] = {}
        self.retry = RETRY_SECONDS if retry is None and status in (429, 503) else retry

    @property
    def body(self) -> dict[str, Any]:
        found: dict[str, Any] = to_builtins(Error(Fault(self.code, str(self), self.how)))
        return found

    @property
    def headers(self) -> dict[str, str]:
        headers = {"Cache-Control": "no-store", **self.extra}
        if self.retry is not None:
            headers["Retry-After"] = str(self.retry)
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return headers

    def response(self) -> Response:
        return JSONResponse(self.body, self.status, self.headers)


class Gone(Problem):
    """A run that is no more."""

    how: str

    def __init__(self, client: str, how: str, owner: str = "") -> None:
        text = f"the run of {client} is gone ({how}); begin a new one under another id"
        super().__init__(410, "gone", text, how=how)
        #: Whose it was; empty if nobody knows any more.
        self.owner = owner


def unknown_client(client: str) -> Problem:
    return Problem(404, "unknown_client", f"there is no client {client}; create it first")


def problem_of(error: BaseException) -> Problem:
    """The answer that an error stands for; what nobody foresaw goes to the log in full."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):
        return _http_problem(error)
    if isinstance(error, QueuesFull):
        return Problem(503, "queues_full", str(error))
    if isinstance(error, DataSetError):
        return Problem(422, "run_failed", str(error))
    if isinstance(error, NoSpace) or _is_full(error):
        return Problem(507, "no_space", "the server's disk is full; free some space there")
    if isinstance(error, MessageError):
        return Problem(413, "too_large", f"{error}")
    if isinstance(error, TransportError):
        tell("the queues cannot be used", error)
        return Problem(503, "queues_away", "the queues cannot be reached; try again")
    if isinstance(error, sqlite3.Error):
        tell("a database cannot be read", error)
        return Problem(503, "busy", "the client's home cannot be read just now; try again")
    log.error("an error that nobody foresaw", exc_info=error)
    return Problem(500, "internal", "the server made a mistake; its log tells more")


def tell(what: str, error: Exception) -> None:
    """In the log, but not for each of many clients that try again and again."""
    now = time.monotonic()
    if now - _told.get(what, -math.inf) >= TELL_SECONDS:
        _told[what] = now
        log.warning("%s: %s", what, str(error) or repr(error))


def _is_full(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno in NO_ROOM
    code = getattr(error, "sqlite_errorcode", 0)
    return isinstance(error, sqlite3.Error) and code & 0xFF == sqlite3.SQLITE_FULL


def _http_problem(error: HTTPException) -> Problem:
    code = _CODES.get(error.status_code, "bad_request")
    text = {
        404: "there is no such path; /v1/openapi.json names all of them",
        405: "the path does not take this method; /v1/openapi.json names those that it takes",
    }.get(error.status_code, error.detail)
    problem = Problem(error.status_code, code, text)
    problem.extra = error.headers or {}
    return problem
