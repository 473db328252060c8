"""The OpenAPI document: every path, with all that goes in and comes out."""

from typing import Any

import msgspec

import booksan
from booksan.answers import Format
from booksan.gateway.config import GatewayConfig
from booksan.gateway.results import DEFAULT_PAGE, MAX_PAGE, MEDIA_TYPES, NAME, PAGE
from booksan_common import shapes

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
NAMED: Schema = {"type": "string", "pattern": f"^{NAME.pattern}$"}
CLIENT: Schema = msgspec.json.schema(shapes.ClientId)
BATCH: Schema = msgspec.json.schema(shapes.Batch)

#: Where the document keeps the shapes that are named in it.
_PLACE = "#/components/schemas/{name}"

JSON = "application/json"
CSV = MEDIA_TYPES[Format.CSV].partition(";")[0]

#: What each error status means here.
ERRORS = {
    400: "malformed: the body, the query parameters or the compression",
    401: "the token or the client's secret is missing",
    403: "the token, the secret or the ticket is wrong, or not allowed to do this",
    404: "there is no such client, source, query or data set",
    405: "the path does not take this method",
    408: "the body came too slowly",
    409: "not now: not_yet, not_complete, or the id is in use with another spec",
    410: "the client is gone; `how` tells how its run ended",
    413: "the body is too large",
    415: "the Content-Encoding is not known",
    422: "a value cannot be used",
    429: "too many clients at once",
    431: "the head of the request is too large",
    500: "a mistake of the server",
    503: "the queues or the client's home cannot be used just now; try again",
    507: "the server's disk is full",
}

#: Of every path of a client.
_ALWAYS = (400, 401, 403, 404, 410, 431, 500, 503, 507)
_WITH_BODY = (*_ALWAYS, 408, 413, 415, 422)

_ANYBODY: list[dict[str, list[str]]] = [{}]
_TOKEN: list[dict[str, list[str]]] = [{"token": []}, {}]
_OWNER: list[dict[str, list[str]]] = [{"secret": []}, {"secret": [], "token": []}]
_OWNER_OR_OPERATOR: list[dict[str, list[str]]] = [*_OWNER, {"operator": []}]
_OPERATOR: list[dict[str, list[str]]] = [{"operator": []}]


def document(config: GatewayConfig) -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "booksan",
            "version": booksan.__version__,
            "description": "Upload a data set in batches, follow the run, read its answers.",
        },
        "paths": _paths(config),
        "components": {"schemas": _schemas(), "securitySchemes": _SECURITY},
    }


def _schemas() -> dict[str, Schema]:
    kinds = [each for each in vars(shapes).values() if _is_shape(each)]
    _, found = msgspec.json.schema_components(kinds, ref_template=_PLACE)
    for kind in kinds:
        if not kind.__struct_config__.forbid_unknown_fields:
            _require_all(found[kind.__name__])
    return found


def _is_shape(found: object) -> bool:
    return isinstance(found, type(msgspec.Struct)) and found is not msgspec.Struct


def _require_all(schema: Schema) -> None:
    """Of what goes out, a field's default is for older servers: this one always sends it."""
    for name, each in schema["properties"].items():
        if "default" in each:
            del each["default"]
            schema["required"].append(name)


def _ref(kind: type[msgspec.Struct]) -> Schema:
    return {"$ref": _PLACE.format(name=kind.__name__)}


_SECURITY = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "The gateway's token, if it has one; the operator's does as well.",
    },
    "operator": {"type": "http", "scheme": "bearer", "description": "The operator's token."},
    "secret": {
        "type": "apiKey",
        "in": "header",
        "name": "Booksan-Secret",
        "description": "The client's own secret: 16 to 256 printable ASCII characters.",
    },
}


def _paths(config: GatewayConfig) -> dict[str, Any]:
    client = "/v1/clients/{id}"
    return {
        "/v1/health": {"get": _health()},
        "/v1/openapi.json": {
            "get": _operation(
                "This document", _ANYBODY, {200: _json({"type": "object"})}, (403, 431)
            )
        },
        "/v1/datasets": {
            "get": _operation(
                "The data sets", _TOKEN, {200: _json(_ref(shapes.Datasets))}, (401, 403, 431, 500)
            )
        },
        "/v1/datasets/{name}": {
            "get": _operation(
                "One data set",
                _TOKEN,
                {200: _json(_ref(shapes.Dataset))},
                (401, 403, 404, 431, 500),
                [_path("name", NAMED)],
            )
        },
        "/v1/clients": {"get": _list_clients(), "post": _create()},
        client: {"get": _status(), "delete": _cancel()},
        f"{client}/events": {"get": _events()},
        f"{client}/results/{{query}}": {"get": _results()},
        f"{client}/rejected": {"get": _rejected()},
        f"{client}/acknowledge": {"post": _acknowledge()},
        f"{client}/sources/{{source}}/batches/{{n}}": {"put": _put(config)},
        f"{client}/sources/{{source}}/end": {"post": _end()},
    }


def _health() -> dict[str, Any]:
    return _operation(
        "Whether queues and disk can be used",
        _ANYBODY,
        {200: _json(_ref(shapes.Health)), 503: _json(_ref(shapes.Health), "they cannot be used")},
        (403, 431, 500),
    )


def _list_clients() -> dict[str, Any]:
    return _operation(
        "All clients; `missing` names hosts that did not answer",
        _OPERATOR,
        {200: _json(_ref(shapes.Clients))},
        (400, 401, 403, 431, 500, 503),
    )


def _create() -> dict[str, Any]:
    return _operation(
        "Begin a run, or find it again",
        _OWNER,
        {201: _json(_ref(shapes.Status), "begun"), 200: _json(_ref(shapes.Status), "it was there")},
        (*_WITH_BODY, 409, 429),
        body={JSON: {"schema": _ref(shapes.Creation)}},
    )


def _status() -> dict[str, Any]:
    wait = {"type": "number", "minimum": 0, "maximum": 999, "multipleOf": 0.001}
    return _operation(
        "How far the run is",
        _OWNER_OR_OPERATOR,
        {200: _json(_ref(shapes.Status))},
        (*_ALWAYS, 422),
        [
            _id(),
            _query("stages", FLAG, "adds `stages`, `stalled` and `resend`, asked of all hosts"),
            _query("wait", wait, "seconds, at most 30, to hold the answer while nothing changes"),
            _query("seen", TEXT, "the version that is known already"),
            _ticket(),
        ],
    )


def _cancel() -> dict[str, Any]:
    return _operation(
        "Give the run up; everything of it is deleted",
        _OWNER_OR_OPERATOR,
        {200: _json(_ref(shapes.Gone))},
        _ALWAYS,
        [_id(), _ticket()],
    )


def _events() -> dict[str, Any]:
    return _operation(
        "Every change of the status as server-sent events, `end` at last",
        _OWNER_OR_OPERATOR,
        {200: _answer({"text/event-stream": {"schema": {}}})},
        _ALWAYS,
        [_id(), _ticket()],
    )


def _results() -> dict[str, Any]:
    files: dict[str, Any] = {
        JSON: {"schema": {"anyOf": [_ref(shapes.Answer), {"type": "array"}]}},
        CSV: {"schema": TEXT},
        MEDIA_TYPES[Format.PARQUET]: {"schema": TEXT},
    }
    return _operation(
        "An answer: a page of it, or the whole file",
        _OWNER_OR_OPERATOR,
        {200: _answer(files)},
        (*_ALWAYS, 409, 422),
        [
            _id(),
            _path("query", NAMED),
            _query("format", {"type": "string", "enum": [PAGE, *Format]}),
            *_page(),
            _ticket(),
        ],
    )


def _rejected() -> dict[str, Any]:
    return _operation(
        "Rows that could not be read, and why",
        _OWNER_OR_OPERATOR,
        {200: _answer({JSON: {"schema": _ref(shapes.Rejected)}, CSV: {"schema": TEXT}})},
        (*_ALWAYS, 422),
        [
            _id(),
            _query("format", {"type": "string", "enum": [PAGE, Format.CSV]}),
            _query("source", NAMED, "of this source only"),
            *_page(),
            _ticket(),
        ],
    )


def _acknowledge() -> dict[str, Any]:
    return _operation(
        "The client has its answers; everything of it is deleted",
        _OWNER,
        {200: _json(_ref(shapes.Gone))},
        (*_ALWAYS, 409),
        [_id(), _ticket()],
    )


def _put(config: GatewayConfig) -> dict[str, Any]:
    return _operation(
        f"A batch of whole CSV records without header, at most {config.max_batch_bytes} bytes",
        _OWNER,
        {200: _json(_ref(shapes.Receipt), "all of it is in the queues")},
        (*_WITH_BODY, 409),
        [
            _id(),
            _path("source", NAMED),
            _path("n", BATCH),
            _header("Content-Encoding", {"type": "string", "enum": ["gzip", "zstd", "identity"]}),
            _ticket(),
            _permit(),
        ],
        body={CSV: {"schema": TEXT}, "application/octet-stream": {"schema": TEXT}},
    )


def _end() -> dict[str, Any]:
    return _operation(
        "How many batches the source has",
        _OWNER,
        {200: _json(_ref(shapes.Nothing))},
        (*_WITH_BODY, 409),
        [_id(), _path("source", NAMED), _ticket(), _permit()],
        body={JSON: {"schema": _ref(shapes.End)}},
    )


def _operation(
    summary: str,
    security: list[dict[str, list[str]]],
    answers: dict[int, Any],
    errors: tuple[int, ...],
    parameters: list[dict[str, Any]] | None = None,
    body: dict[str, Any] | None = None,
) -> dict[str, Any]:
    refusals = {status: _json(_ref(shapes.Error), ERRORS[status]) for status in (*errors, 405)}
    found: dict[str, Any] = {
        "summary": summary,
        "security": security,
        "parameters": parameters or [],
        "responses": {str(status): found for status, found in sorted((refusals | answers).items())},
    }
    if body is not None:
        found["requestBody"] = {"required": True, "content": body}
    return found


def _answer(content: dict[str, Any], text: str = "done") -> dict[str, Any]:
    return {"description": text, "content": content}


def _json(schema: Schema, text: str = "done") -> dict[str, Any]:
    return _answer({JSON: {"schema": schema}}, text)


def _id() -> dict[str, Any]:
    return _path("id", CLIENT)


def _path(name: str, schema: Schema) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _query(name: str, schema: Schema, text: str = "") -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, "description": text}


def _page() -> list[dict[str, Any]]:
    limit = {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": DEFAULT_PAGE}
    return [_query("offset", BATCH | {"default": 0}), _query("limit", limit)]


def _header(name: str, schema: Schema, text: str = "") -> dict[str, Any]:
    return {"name": name, "in": "header", "schema": schema, "description": text}


def _ticket() -> dict[str, Any]:
    return _header("Booksan-Ticket", TEXT, "from the status; spares questions to the home")


def _permit() -> dict[str, Any]:
    return _header("Booksan-Permit", TEXT, "from the status; spares questions to the home")
