"""Answers and rejected rows: pages to look at, and whole files.

A whole file is written to a temporary one first, so that no reader, however slow, keeps a database
open, and memory stays small however long the answer is.
"""

import re
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import IO, NamedTuple

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from booksan.answers import Format, answer_chunks, csv_chunks, json_rows
from booksan.datasets import dataset_named
from booksan.gateway.errors import Problem, unknown_client
from booksan.gateway.homes import Homes
from booksan.gateway.status import MAX_WAIT
from booksan.home import HomeStatus, HomeView
from booksan.stages.graph import Query
from booksan_common.names import CLIENT_ID
from booksan_common.shapes import MAX_NUMBER, Answer, Rejected, RejectedRow

#: Bytes of a file that stay in memory.
IN_MEMORY = 4 * 1024 * 1024
CHUNK_BYTES = 256 * 1024
PAGE = "page"

MEDIA_TYPES = {
    Format.CSV: "text/csv; charset=utf-8",
    Format.JSON: "application/json",
    Format.PARQUET: "application/vnd.apache.parquet",
}


class Page(NamedTuple):
    offset: int
    limit: int


class Made(NamedTuple):
    """A whole file, to be sent."""

    file: IO[bytes]
    size: int
    name: str
    media_type: str


def query_named(status: HomeStatus, name: str) -> Query:
    for query in dataset_named(status.spec.dataset).queries:
        if query.name == name:
            return query
    raise Problem(404, "unknown_query", f"{status.spec.dataset} has no such query")


def answer_page(view: HomeView, name: str, page: Page) -> Answer:
    status = _status(view)
    query = query_named(status, name)
    return Answer(
        query=query.name,
        about=query.describe(status.spec.params),
        complete=query.stage in status.complete,
        total=view.answer_count(query),
        offset=page.offset,
        columns={title: kind.value for title, kind in query.columns.items()},
        rows=json_rows(query, view.answer(query, page.offset, page.limit)),
    )


def answer_file(view: HomeView, name: str, form: Format, place: Path) -> Made:
    status = _status(view)
    query = query_named(status, name)
    if query.stage not in status.complete:
        raise Problem(409, "not_complete", f"the answer to {name} is not complete yet; ask later")
    chunks = answer_chunks(query, view.answer_rows(query), form)
    return _make(chunks, f"{name}.{form.value}", MEDIA_TYPES[form], place)


def rejected_page(view: HomeView, source: str | None, page: Page) -> Rejected:
    sources = _sources(_status(view), source)
    rows = view.rejected_page(sources, page.offset, page.limit)
    total = view.rejected_count(sources)
    return Rejected(total, page.offset, tuple(RejectedRow(*row) for row in rows))


def rejected_file(view: HomeView, source: str | None, place: Path) -> Made:
    sources = _sources(_status(view), source)
    rows = ((name, row, reason) for name in sources for row, reason in view.rejected_rows(name))
    chunks = csv_chunks(("source", "row", "reason"), rows)
    return _make(chunks, "rejected.csv", MEDIA_TYPES[Format.CSV], place)


def _status(view: HomeView) -> HomeStatus:
    status = view.status()
    if status is None:
        raise unknown_client(view.client)
    return status


def _sources(status: HomeStatus, wanted: str | None) -> list[str]:
    known = [source.name for source in dataset_named(status.spec.dataset).sources]
    if wanted is None:
        return known
    if wanted not in known:
        raise Problem(404, "unknown_source", f"the sources are: {', '.join(known)}")
    return [wanted]


def _make(chunks: Iterable[bytes], name: str, media_type: str, place: Path) -> Made:
    file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY, dir=str(place))  # noqa: SIM115
    try:
        for chunk in chunks:
            file.write(chunk)
        size = file.tell()
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return Made(file, size, name, media_type)


def send(homes: Homes, made: Made) -> Response:
    async def content() -> AsyncIterator[bytes]:
        try:
            while chunk := await homes.run(made.file.read, CHUNK_BYTES):
                yield chunk
        finally:
            made.file.close()

    headers = {
        "Content-Length": str(made.size),
        "Content-Disposition": f'attachment; filename="{made.name}"',
        "Cache-Control": "no-store",
    }
    return StreamingResponse(content(), 200, headers, made.media_type)


# What stands in a path or behind its question mark, checked before anything is done with it.

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")
SECONDS = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3})?")
MAX_PAGE = 10_000
DEFAULT_PAGE = 1000


def client_of(request: Request) -> str:
    client: str = request.path_params["id"]
    if not CLIENT_ID.fullmatch(client):
        raise Problem(404, "unknown_client", "no client can have such an id")
    return client


def name_of(request: Request, kind: str) -> str:
    name: str = request.path_params[kind]
    if not NAME.fullmatch(name):
        raise Problem(404, f"unknown_{kind}", f"there is no such {kind}")
    return name


def number_of(what: str, text: str) -> int:
    if not NUMBER.fullmatch(text) or int(text) > MAX_NUMBER:
        raise Problem(422, "unusable", f"{what} must be a whole number from 0 to {MAX_NUMBER}")
    return int(text)


def query_of(request: Request, known: tuple[str, ...]) -> dict[str, str]:
    items = request.query_params.multi_items()
    names = [name for name, _ in items]
    if not set(names) <= set(known) or len(names) != len(set(names)):
        may = f"may have {', '.join(known)}, each once" if known else "has none"
        raise Problem(400, "bad_query", f"wrong query parameters; this path {may}")
    return dict(items)


def flag_of(query: Mapping[str, str], name: str) -> bool:
    value = query.get(name, "false")
    if value not in ("true", "false"):
        raise Problem(422, "unusable", f"{name} must be true or false")
    return value == "true"


def wait_of(query: Mapping[str, str]) -> float:
    text = query.get("wait", "0")
    if not SECONDS.fullmatch(text):
        raise Problem(422, "unusable", f"wait must be seconds, at most {MAX_WAIT:g}")
    return min(float(text), MAX_WAIT)


def format_of(query: Mapping[str, str], known: tuple[str, ...]) -> str:
    form = query.get("format", PAGE)
    if form not in known:
        raise Problem(422, "unusable", f"format must be one of {', '.join(known)}")
    return form


def page_of(query: Mapping[str, str]) -> Page:
    offset = number_of("offset", query.get("offset", "0"))
    limit = number_of("limit", query.get("limit", str(DEFAULT_PAGE)))
    if not 1 <= limit <= MAX_PAGE:
        raise Problem(422, "unusable", f"limit must be from 1 to {MAX_PAGE}")
    return Page(offset, limit)
