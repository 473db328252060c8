"""The shapes of all that travels in JSON, as OpenAPI writes them."""

from typing import Any

from booksan.gateway.results import MAX_NUMBER, NAME
from booksan.spec import CLIENT_ID
from booksan.stages.kinds import ColumnType

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
CLIENT: Schema = {"type": "string", "pattern": f"^{CLIENT_ID.pattern}$"}
NAMED: Schema = {"type": "string", "pattern": f"^{NAME.pattern}$"}
BATCH: Schema = {"type": "integer", "minimum": 0, "maximum": MAX_NUMBER}


def obj(properties: dict[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    """An object that has all of these fields but the optional ones."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def mapping(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def nullable(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_PARAM: Schema = {"anyOf": [{"type": "number"}, TEXT]}
_COLUMNS: Schema = {"anyOf": [array(TEXT), TEXT]}
_KIND: Schema = {"type": "string", "enum": [kind.value for kind in ColumnType]}
_HOW: Schema = {"type": "string", "description": "done, cancelled, expired or idle"}
_STATE: Schema = {"type": "string", "enum": ["uploading", "working", "done", "failed"]}

_STREAM = obj(
    {
        "stage": TEXT,
        "shard": COUNT,
        "sender": TEXT,
        "batches": COUNT,
        "of_batches": nullable(COUNT),
        "missing": array(COUNT),
    }
)

_STATUS = obj(
    {
        "id": CLIENT,
        "dataset": TEXT,
        "dataset_version": COUNT,
        "generation": COUNT,
        "params": mapping(_PARAM),
        "version": TEXT
        | {"description": "changes when anything but `stages`, `stalled` and `resend` does"},
        "state": _STATE,
        "failed": nullable(TEXT),
        "expires": COUNT,
        "ticket": TEXT,
        "permits": mapping(TEXT),
        "sources": mapping(
            obj(
                {
                    "batches": COUNT,
                    "of_batches": nullable(COUNT),
                    "rows": COUNT,
                    "rejected": COUNT,
                    "complete": FLAG,
                    "missing": array(COUNT),
                }
            )
        ),
        "answers": mapping(obj({"rows": COUNT, "complete": FLAG})),
        "joins": array(
            obj({"stage": TEXT, "source": TEXT, "to": TEXT, "rows": COUNT, "matched": COUNT})
        ),
        "stages": mapping(
            obj(
                {
                    "shards": COUNT,
                    "batches": COUNT,
                    "of_batches": nullable(COUNT),
                    "rows": COUNT,
                    "bytes": COUNT,
                    "done": FLAG,
                    "inputs": array(TEXT),
                }
            )
        ),
        "stalled": nullable(obj({"seconds": COUNT, "where": array(_STREAM)})),
        "resend": mapping(obj({"batches": array(array(COUNT)), "end": FLAG})),
        "missing_hosts": array(TEXT),
    },
    optional=("stages", "stalled", "resend", "missing_hosts"),
)

_DATASET = obj(
    {
        "name": TEXT,
        "version": COUNT,
        "about": TEXT,
        "sources": array(
            obj(
                {
                    "name": TEXT,
                    "file_name": TEXT,
                    "needed": array(TEXT),
                    "delimiter": TEXT,
                    "merged": mapping(array(TEXT)),
                }
            )
        ),
        "params": array(
            obj(
                {
                    "name": TEXT,
                    "default": _PARAM,
                    "help": TEXT,
                    "low": nullable({"type": "number"}),
                    "high": nullable({"type": "number"}),
                }
            )
        ),
        "queries": array(
            obj(
                {
                    "name": TEXT,
                    "about": TEXT
                    | {"description": "`%(name)s` stands where a parameter's value belongs"},
                    "columns": mapping(_KIND),
                    "order": array(TEXT),
                }
            )
        ),
    }
)

SCHEMAS: dict[str, Schema] = {
    "Error": obj({"error": obj({"code": TEXT, "message": TEXT, "how": _HOW}, optional=("how",))}),
    "Health": obj(
        {"status": TEXT, "away": array(TEXT), "host": TEXT, "version": TEXT}, optional=("away",)
    ),
    "Dataset": _DATASET,
    "Datasets": obj({"datasets": array(ref("Dataset"))}),
    "Creation": obj(
        {
            "id": CLIENT,
            "dataset": TEXT,
            "params": mapping(_PARAM),
            "generation": COUNT
            | {"description": "one more than the last, to begin a run anew that was lost"},
            "columns": mapping(_COLUMNS)
            | {"description": "of every source: the names in its header, or the header line"},
        },
        optional=("params", "generation"),
    )
    | {"additionalProperties": False},
    "Status": _STATUS,
    "Receipt": obj({"rows": COUNT, "rejected": COUNT}),
    "End": obj({"batches": BATCH}) | {"additionalProperties": False},
    "Nothing": {"type": "object", "maxProperties": 0},
    "Answer": obj(
        {
            "query": TEXT,
            "about": TEXT,
            "complete": FLAG,
            "total": COUNT,
            "offset": COUNT,
            "columns": mapping(_KIND),
            "rows": array({"type": "object"}),
        }
    ),
    "Rejected": obj(
        {
            "total": COUNT,
            "offset": COUNT,
            "rows": array(obj({"source": TEXT, "row": COUNT, "reason": TEXT})),
        }
    ),
    "Gone": obj({"how": _HOW}),
    "Clients": obj(
        {
            "clients": array(
                obj(
                    {"id": CLIENT, "dataset": TEXT, "state": _STATE, "expires": COUNT, "host": TEXT}
                )
            ),
            "missing": array(TEXT),
        }
    ),
}
