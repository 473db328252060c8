"""Every error becomes an answer that says what to do, and none tells a secret."""

import asyncio
import errno
import logging
import sqlite3
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from booksan.errors import MessageError, NoSpace, QueuesFull, TransportError
from booksan.gateway.access import Access, Caller
from booksan.gateway.boundary import ErrorBoundary, Names
from booksan.gateway.errors import Problem, problem_of
from booksan.gateway.protocol import Connections
from booksan.spec import Spec, owner_of


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Problem(409, "not_yet", "later"), (409, "not_yet")),
        (QueuesFull("full"), (503, "queues_full")),
        (TransportError("away"), (503, "queues_away")),
        (NoSpace("full"), (507, "no_space")),
        (OSError(errno.ENOSPC, "full"), (507, "no_space")),
        (OSError(errno.EDQUOT, "full"), (507, "no_space")),
        (MessageError("too large to travel"), (413, "too_large")),
        (sqlite3.OperationalError("locked"), (503, "busy")),
        (sqlite3.DatabaseError("malformed"), (503, "busy")),
        (OSError(errno.EIO, "broken"), (500, "internal")),
        (KeyError("secret"), (500, "internal")),
    ],
)
def test_errors_become_answers(error: Exception, expected: tuple[int, str]) -> None:
    problem = problem_of(error)
    assert (problem.status, problem.code) == expected
    assert ("Retry-After" in problem.headers) == (problem.status == 503)
    assert "secret" not in str(problem)


class Asked:
    """One request to an application, without a server."""

    def __init__(self) -> None:
        self.sent: list[Message] = []

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    async def receive(self) -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    def ask(self, app: Any) -> None:
        scope: Scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": None}
        door = ErrorBoundary(app, Connections(1, 1), Names([], [], any_host=True))
        asyncio.run(door(scope, self.receive, self.send))


def test_a_mistake_is_told_to_the_log_and_not_to_the_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("the inside of the server")

    asked = Asked()
    asked.ask(app)
    assert asked.sent[0]["status"] == 500
    assert b"internal" in asked.sent[1]["body"]
    assert b"inside" not in asked.sent[1]["body"]
    assert "the inside of the server" in caplog.text


def test_an_answer_that_breaks_off_is_not_ended_as_if_it_were_whole(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async def content() -> Any:
            yield b"some"
            raise OSError("no more")

        scope["asgi"] = {"spec_version": "2.4"}
        await StreamingResponse(content())(scope, receive, send)

    asked = Asked()
    with caplog.at_level(logging.WARNING):
        asked.ask(app)
    assert [message.get("more_body") for message in asked.sent] == [None, True]
    assert "cut short" in caplog.text


def test_what_is_whole_passes_as_it_is() -> None:
    asked = Asked()
    asked.ask(PlainTextResponse("fine"))
    assert (asked.sent[0]["status"], asked.sent[1]["body"]) == (200, b"fine")


def request(**headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "headers": raw})


def test_credentials_are_not_shown() -> None:
    secret = "a secret of a client"
    caller = Access("", "", (b"",)).caller(request(booksan_secret=secret))
    assert secret not in repr(caller)
    spec = Spec("c1", "books", 1, {}, {}, {"results": 1}, 1, owner=owner_of("c1", secret))
    caller.check_owner(spec)
    with pytest.raises(Problem) as caught:
        Caller(secret="another secret of it").check_owner(spec)
    assert "secret of it" not in str(caught.value)


def test_a_run_without_an_owner_is_nobodys() -> None:
    spec = Spec("c1", "books", 1, {}, {}, {"results": 1}, 1)
    with pytest.raises(Problem):
        Caller(secret="any secret at all").check_owner(spec)
    Caller(operator=True).check_owner(spec, operator_may=True)
