"""What stands in a path or behind its question mark, checked before anything is done with it."""

import re
from collections.abc import Mapping

from starlette.requests import Request

from booksan.gateway.errors import Problem
from booksan.gateway.results import PAGE, Page
from booksan.gateway.status import MAX_WAIT
from booksan.spec import CLIENT_ID

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")
SECONDS = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3})?")
#: Batches of a source, rows to skip.
MAX_NUMBER = 10**9
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
