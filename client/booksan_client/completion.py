"""What the shell's completion offers; it must answer at once, so nothing heavy is imported."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from booksan_client.state import ClientState


#: A word, and what it is, where the shell shows that.
Offer = tuple[str, str]


@dataclass(frozen=True)
class Declared:
    """A data set as far as it can be known without its code."""

    #: `name=default`, and what it is.
    params: Mapping[str, str]
    queries: tuple[str, ...]
    stages: tuple[str, ...]


def _by_earlier_runs() -> dict[str, Declared]:
    """Only a server knows data sets, but it is not asked at every key."""
    return {name: Declared({}, (), ()) for name in sorted({each.dataset for each in _clients()})}


#: Where data sets can be known from; `booksan`, which has some of its own, puts these here.
declared: Callable[[], Mapping[str, Declared]] = _by_earlier_runs


def datasets(incomplete: str) -> list[str]:
    return beginning(incomplete, declared())


def settings(context: typer.Context, incomplete: str) -> list[Offer]:
    """For `--set`, by the data set that is named before it."""
    found = _dataset(context)
    known = found.params if found else {}
    return [(name, known[name]) for name in beginning(incomplete, known)]


def queries(context: typer.Context, incomplete: str) -> list[str]:
    found = _dataset(context)
    return beginning(incomplete, found.queries if found else ())


def clients(incomplete: str) -> list[Offer]:
    """Those of this user."""
    known = {each.id: each.dataset for each in _clients()}
    return [(id, known[id]) for id in beginning(incomplete, known)]


def formats(incomplete: str) -> list[str]:
    from booksan_client.collect import FORMATS

    return beginning(incomplete, FORMATS)


def compressions(incomplete: str) -> list[str]:
    return beginning(incomplete, ("none", "gzip"))


def beginning(incomplete: str, known: Iterable[str]) -> list[str]:
    return [name for name in known if name.startswith(incomplete)]


def last_of_several(incomplete: str, known: Iterable[str]) -> list[str]:
    """Of words with commas between them the last is not finished, and none comes twice."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    left = (name for name in known if name not in taken)
    return [f"{before}{comma}{name}" for name in beginning(last, left)]


def _dataset(context: typer.Context) -> Declared | None:
    # The option that is being completed lacks its value: what stands before it is not parsed yet.
    words = [context.params.get("dataset"), *context.args]
    return declared().get(next((word for word in words if word), ""))


def _clients() -> "Iterable[ClientState]":
    from booksan_client.state import known_clients

    return [state for _, state in known_clients()]
