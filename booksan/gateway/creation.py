"""What a client asks for when it begins, checked before anything is done about it."""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from booksan.errors import UsageError
from booksan.gateway.errors import Problem
from booksan.spec import CLIENT_ID, ParamValue
from booksan.stages.datasets import datasets
from booksan.stages.graph import Dataset, Param, Source
from booksan_client.cutter import Header, check_columns, read_header
from booksan_client.errors import InputError

#: Bytes of columns and parameters, as every message and every ticket carries them.
MAX_SPEC = 48 * 1024
#: How often a run can be begun anew.
MAX_GENERATION = 1_000_000


@dataclass(frozen=True)
class Wanted:
    client: str
    dataset: Dataset
    params: Mapping[str, ParamValue]
    columns: Mapping[str, tuple[str, ...]]
    #: One more than the last time, if the run is begun anew because the server has lost it.
    generation: int = 0


def served(shards: Mapping[str, int]) -> dict[str, Dataset]:
    """The data sets for which this topology has all stages."""
    return {
        name: dataset
        for name, dataset in datasets().items()
        if all(stage in shards for stage in dataset.stage)
    }


def read_object(body: bytes, known: Mapping[str, type], needed: tuple[str, ...]) -> dict[str, Any]:
    """A JSON object with these fields and no others."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise _malformed("the body is not JSON") from None
    if not isinstance(found, dict):
        raise _malformed("the body must be a JSON object")
    for name, value in found.items():
        if name not in known:
            raise _malformed(f"the body has an unknown field; it may have {', '.join(known)}")
        if not isinstance(value, known[name]) or isinstance(value, bool):
            raise _malformed(f"{name!r} must be of the type {_TYPES[known[name]]}")
    for name in needed:
        if name not in found:
            raise _malformed(f"{name!r} is missing in the body")
    return found


_TYPES = {str: "text", dict: "object", int: "whole number"}


def read_wanted(body: bytes, known: Mapping[str, Dataset]) -> Wanted:
    fields = {"id": str, "dataset": str, "params": dict, "columns": dict, "generation": int}
    found = read_object(body, fields, ("id", "dataset", "columns"))
    if not CLIENT_ID.fullmatch(found["id"]):
        raise _malformed("an id has up to 64 lower-case letters, digits and hyphens")
    if found["dataset"] not in known:
        raise Problem(404, "unknown_dataset", f"no such data set; there is: {', '.join(known)}")
    dataset = known[found["dataset"]]
    wanted = Wanted(
        found["id"],
        dataset,
        _params(dataset, found.get("params", {})),
        _columns(dataset, found["columns"]),
        found.get("generation", 0),
    )
    if not 0 <= wanted.generation <= MAX_GENERATION:
        raise _unusable(f"generation must be from 0 to {MAX_GENERATION}")
    size = len(json.dumps([dict(wanted.params), dict(wanted.columns)]))
    if size > MAX_SPEC:
        raise _unusable(f"parameters and columns have {size} characters; {MAX_SPEC} is the limit")
    return wanted


def _params(dataset: Dataset, found: Mapping[str, Any]) -> dict[str, ParamValue]:
    known = {param.name: param for param in dataset.params}
    values = dataset.defaults
    for name, value in found.items():
        if name not in known:
            raise _unusable(f"{dataset.name} has no such parameter; it has: {', '.join(known)}")
        values[name] = _param(known[name], value)
    return values


def _param(param: Param, value: Any) -> ParamValue:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _unusable(f"{param.name} must be a number or text")
    if isinstance(value, float) and value.is_integer() and isinstance(param.default, int):
        value = int(value)
    try:
        return param.parse(str(value))
    except UsageError as error:
        raise _unusable(str(error)) from None


def _columns(dataset: Dataset, found: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    if set(found) != set(dataset.source):
        raise _unusable(f"columns must be given for: {', '.join(dataset.source)}")
    return {source.name: _header(source, found[source.name]) for source in dataset.sources}


def _header(source: Source, found: Any) -> tuple[str, ...]:
    where = f"columns of {source.name}"
    if isinstance(found, str):
        try:
            stream = io.BytesIO(found.encode(errors="surrogatepass"))
            names = read_header(stream, source.delimiter).names
        except InputError as error:
            raise _unusable(f"{where}: {error}") from None
    elif isinstance(found, list) and all(isinstance(name, str) for name in found):
        names = tuple(found)
        if not all(_is_text(name) for name in names):
            raise _unusable(f"{where}: a name is not text in UTF-8")
    else:
        raise _malformed(f"{where} must be a list of names, or the header line as text")
    try:
        check_columns(Header(names, 0), source.needed, Path(where))
    except InputError as error:
        raise _unusable(str(error)) from None
    return names


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _malformed(text: str) -> Problem:
    return Problem(400, "malformed", text)


def _unusable(text: str) -> Problem:
    return Problem(422, "unusable", text)
