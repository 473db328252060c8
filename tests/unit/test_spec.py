"""A client's run is pinned to its spec, and the same spec always has the same text and digest."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from booksan.errors import MessageError, UsageError
from booksan.spec import Spec, check_client_id, spec_from_json

SHARDS = {
    "q1-filter": 1,
    "q2-decades": 2,
    "q3-join": 3,
    "q4-top": 2,
    "q5-sentiment": 4,
    "q5-percentile": 2,
    "results": 3,
}


def make_spec(client: str = "client-1", **changes: Any) -> Spec:
    """A spec of the data set books; other unit tests use it too."""
    spec = Spec(
        client=client,
        dataset="books",
        version=1,
        params={"q1.word": "distributed", "q3.min_reviews": 500, "q5.percentile": 90.0},
        columns={"books": ("Title", "authors"), "reviews": ("Title", "review/score")},
        shards=SHARDS,
        expires=2_000_000_000,
    )
    return replace(spec, **changes)


names = st.text(min_size=1, max_size=8)
specs = st.builds(
    Spec,
    client=st.from_regex(r"[a-z0-9][a-z0-9-]{0,63}", fullmatch=True),
    dataset=names,
    version=st.integers(0, 99),
    params=st.dictionaries(
        names, st.integers() | st.floats(allow_nan=False) | st.text(max_size=8), max_size=4
    ),
    columns=st.dictionaries(names, st.lists(names, max_size=3).map(tuple), max_size=3),
    shards=st.dictionaries(names, st.integers(1, 64), max_size=4),
    expires=st.integers(0, 2**40),
    owner=names,
    idle=st.integers(0, 2**31),
)


@settings(deadline=None, max_examples=100)
@given(spec=specs)
def test_a_spec_comes_back_as_it_went(spec: Spec) -> None:
    again = spec_from_json(spec.json)
    assert again == spec
    assert again.json == spec.json
    assert again.digest == spec.digest


def test_the_order_of_entries_does_not_change_the_text() -> None:
    spec = make_spec()
    turned = replace(
        spec,
        params=dict(reversed(list(spec.params.items()))),
        columns=dict(reversed(list(spec.columns.items()))),
        shards=dict(reversed(list(spec.shards.items()))),
    )
    assert turned.json == spec.json
    assert turned.digest == spec.digest


def test_the_digest_of_a_known_spec_never_changes() -> None:
    spec = Spec("c", "books", 1, {"p": 90.0}, {"books": ("Titel", "Größe")}, {"results": 2}, 7)
    assert spec.digest == "a2ed32021af130f8e43a72d7318b8921"


@pytest.mark.parametrize(
    "change",
    [
        {"client": "client-2"},
        {"dataset": "flights"},
        {"version": 2},
        {"params": {"q1.word": "distributed", "q3.min_reviews": 501, "q5.percentile": 90.0}},
        {"params": {}},
        {"columns": {"books": ("authors", "Title"), "reviews": ("Title", "review/score")}},
        {"shards": {**SHARDS, "q3-join": 4}},
        {"expires": 2_000_000_001},
        {"owner": "somebody"},
        {"idle": 60},
    ],
)
def test_every_difference_changes_the_digest(change: dict[str, Any]) -> None:
    assert make_spec(**change).digest != make_spec().digest


def test_the_same_text_gives_the_same_object() -> None:
    assert spec_from_json(make_spec().json) is spec_from_json(make_spec().json)


def _without(name: str) -> str:
    fields = make_spec().as_dict()
    del fields[name]
    return json.dumps(fields)


def _with(**changes: object) -> str:
    return json.dumps({**make_spec().as_dict(), **changes})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "7",
        '"text"',
        *(_without(name) for name in make_spec().as_dict()),
        _with(client=5),
        _with(client="../etc"),
        _with(client=""),
        _with(version="one"),
        _with(version=None),
        _with(params=5),
        _with(params=None),
        _with(columns=[]),
        _with(columns={"books": 5}),
        _with(shards=[1]),
        _with(shards={"results": 0}),
        _with(shards={"results": -1}),
        _with(shards={"results": "many"}),
        _with(expires="soon"),
        _with(idle="long"),
    ],
)
def test_what_is_no_spec_is_refused(text: str) -> None:
    with pytest.raises(MessageError, match="not a client's spec"):
        spec_from_json(text)


@pytest.mark.parametrize("client", ["a", "0", "run-0f", "a" * 64, "a--", "7-up"])
def test_a_usable_client_id_is_taken(client: str) -> None:
    assert check_client_id(client) == client


@pytest.mark.parametrize(
    "client",
    ["", "-a", "A", "a_b", "a.b", "a/b", "..", "a\n", "\na", "a b", "ä", "a" * 65, "a\0", "٣"],
)
def test_a_client_id_that_is_no_safe_directory_name_is_refused(client: str) -> None:
    with pytest.raises(UsageError, match="not usable"):
        check_client_id(client)


def test_one_result_per_client_has_one_shard_that_depends_on_the_client_only() -> None:
    homes = {make_spec(f"client-{number}").home for number in range(50)}
    assert homes == {0, 1, 2}
    spec = make_spec()
    assert spec.home == spec.shard_for_client("results")
    assert spec.home == replace(spec, params={}, expires=1).home
