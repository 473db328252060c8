"""What was worked out by hand for the oracles holds for the system as well."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from booksan.datasets import dataset_named
from booksan_common.params import ParamValue
from tests.simulation.world import World
from tests.support.data import shards_of
from tests.support.oracle_rows import Asked
from tests.support.sets import sample_from
from tests.unit import test_oracle_aoe2, test_oracle_flights, test_oracle_steam

#: Each module has a fixture `answer`, and tests that ask it; here it is the system that answers.
HEADERS: Mapping[str, tuple[ModuleType, tuple[str, str]]] = {
    "aoe2": (test_oracle_aoe2, (test_oracle_aoe2.MATCHES, test_oracle_aoe2.PLAYERS)),
    "flights": (test_oracle_flights, (test_oracle_flights.AIRPORTS, test_oracle_flights.FLIGHTS)),
    "steam": (test_oracle_steam, (test_oracle_steam.GAMES, test_oracle_steam.REVIEWS)),
}


def cases() -> Iterator[Any]:
    for name, (module, _) in HEADERS.items():
        for title, function in vars(module).items():
            if title.startswith("test_") and "answer" in inspect.signature(function).parameters:
                for number, arguments in enumerate(_arguments(function)):
                    yield pytest.param(name, function, arguments, id=f"{name}-{title}-{number}")


def _arguments(function: Callable[..., None]) -> list[dict[str, Any]]:
    """Of each of its cases, if it has several."""
    marks = [mark for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize"]
    if not marks:
        return [{}]
    names, values = marks[0].args[:2]
    titles = names.split(",") if isinstance(names, str) else names
    rows = values if len(titles) > 1 else [(value,) for value in values]
    return [dict(zip(titles, row, strict=True)) for row in rows]


def answers_of(name: str, make_world: Callable[..., World]) -> Callable[..., dict[str, bytes]]:
    def answers(first: Path, second: Path, given: Mapping[str, object]) -> dict[str, bytes]:
        params: dict[str, ParamValue] = dataset_named(name).defaults | given  # type: ignore[operator]
        size = max(first.stat().st_size, second.stat().st_size)
        data = sample_from(name, (first, second), params, batch_bytes=max(60, size // 40))
        world = make_world(1, repeats=0.1)
        world.add_client(data.spec("one", shards_of(name, 2)), data.batches)
        world.run()
        assert world.failure("one") is None
        return world.answers("one")

    return answers


@pytest.mark.parametrize(("name", "case", "arguments"), list(cases()))
def test_the_system_answers_as_worked_out_by_hand(
    make_world: Callable[..., World],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    case: Callable[..., None],
    arguments: dict[str, Any],
) -> None:
    judge = dataset_named("steam").stage["q4-english"].operator
    monkeypatch.setattr(judge, "_test", test_oracle_steam.is_english)
    asked = Asked(tmp_path, HEADERS[name][1], answers_of(name, make_world))
    case(asked, **arguments)
