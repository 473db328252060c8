"""What comes in, checked against its declaration; where it does not fit is told by its key."""

from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec

from booksan_common.errors import UsageError
from booksan_common.names import nearest

T = TypeVar("T")

#: Characters of a wrong value that are repeated.
_LONGEST = 80


class Unfit(UsageError):
    """Its text names the key, and says what belongs there and what was found."""

    def __init__(self, path: str, text: str, *, of_its_type: bool = False) -> None:
        super().__init__(f"{path}: {text}" if path else f"it {text}")
        self.path = path
        #: It is beyond its range, say.
        self.of_its_type = of_its_type


def decoded(kind: type[T], found: object, path: str = "") -> T:
    """Plain data as this type; raises Unfit. A `description` says what a key must be."""
    try:
        return msgspec.convert(found, kind, str_keys=True)
    except ValueError as error:
        raise _fault(kind, found, path) or Unfit(path, f"is not usable: {error}") from None


def read_json(path: Path, kind: type[T]) -> T:
    """A file of our own; every error names it."""
    try:
        found = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}") from None
    try:
        return decoded(kind, found)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


class _Declared(NamedTuple):
    """A type, without what is only said of it."""

    kind: Any
    must_be: str | None


def _declared(kind: Any) -> _Declared:
    if get_origin(kind) is Annotated:
        kind, *notes = get_args(kind)
        inner = _declared(kind)
        said = [each.description for each in notes if each.description]
        return _Declared(inner.kind, said[0] if said else inner.must_be)
    if get_origin(kind) in (Union, UnionType):
        others = [each for each in get_args(kind) if each not in (NoneType, msgspec.UnsetType)]
        return _declared(others[0]) if len(others) == 1 else _Declared(kind, None)
    return _Declared(kind, "an object" if _is_struct(kind) else None)


def _fault(kind: Any, found: Any, path: str) -> Unfit | None:
    """The first place that does not fit, as deep as its declaration says what it must be."""
    if _fits(kind, found):
        return None
    bare, must_be = _declared(kind)
    inner = next(_faults(bare, found, path), None)
    if inner is not None or must_be is None:
        return inner
    text = f"must be {must_be}, not {_shown(found)}"
    return Unfit(path, text, of_its_type=_fits(bare, found))


def _faults(kind: Any, found: Any, path: str) -> Iterator[Unfit]:
    if _is_struct(kind) and isinstance(found, dict):
        yield from _faults_of_fields(kind, found, path)
    elif isinstance(found, dict) and len(get_args(kind)) == 2:
        for key, value in found.items():
            if fault := _fault(get_args(kind)[1], value, _join(path, key)):
                yield fault
    elif isinstance(found, list) and get_args(kind):
        for number, value in enumerate(found):
            if fault := _fault(get_args(kind)[0], value, f"{path}[{number}]"):
                yield fault


def _faults_of_fields(kind: Any, found: dict[str, Any], path: str) -> Iterator[Unfit]:
    fields = {each.encode_name: each for each in msgspec.structs.fields(kind)}
    if kind.__struct_config__.forbid_unknown_fields:
        for name in found:
            if name not in fields:
                yield Unfit(_join(path, name), f"there is no such key; {nearest(name, fields)}")
    for name, each in fields.items():
        must_be = _declared(each.type).must_be
        if name in found:
            fault = _fault(each.type, found[name], _join(path, name))
            if fault is not None:
                yield fault
        elif each.required:
            text = f"must be {must_be}; it is missing" if must_be else "is missing"
            yield Unfit(_join(path, name), text)


def _fits(kind: Any, found: object) -> bool:
    try:
        msgspec.convert(found, kind, str_keys=True)
    except ValueError:
        return False
    return True


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else f"{key}"


def _shown(found: object) -> str:
    text = repr(found)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
