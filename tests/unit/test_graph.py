"""A data set is declared once; mistakes in it, and in its parameters, are found at once."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from booksan.datasets import dataset_named, datasets
from booksan.errors import UsageError
from booksan.home import with_home
from booksan.messages import Message
from booksan.shards import queue_name
from booksan.spec import Spec
from booksan.stages.check import check
from booksan.stages.graph import Dataset, Keyed, Param, Params, Query, Route, Source, Stage
from booksan.stages.kinds import ColumnType, FieldKind
from booksan.stages.operator import Operator, Stateless
from booksan.stages.rehearsal import rehearse
from booksan_common.shapes import Kind
from tests.unit.test_spec import make_spec


def to(*stages: str) -> Route:
    """Routes no rows, to these stages."""

    def route(frame: pl.DataFrame, params: Params) -> dict[str, Keyed]:
        return {stage: Keyed(frame.select("id"), "id") for stage in stages}

    return route


class Pure(Stateless):
    def transform(self, message: Message) -> dict[str, Keyed]:
        return {}


Q1 = Query("q1", "q1-pure", {"game": ColumnType.TEXT, "n": ColumnType.INTEGER}, ("n",), "games")
DATASET = with_home(
    Dataset(
        name="chess",
        version=3,
        sources=(
            Source("games", ("id",), to("q1-pure", "q2-join")),
            Source("players", ("id",), to("q2-join")),
        ),
        stages=(
            Stage("q1-pure", ("games",), Pure()),
            Stage("q2-join", ("games", "players"), Operator(), joins=("games",)),
            Stage("q2-best", ("q2-join",), Operator(), keyed=False),
        ),
        queries=(Q1, replace(Q1, name="q2", stage="q2-best")),
        params=(
            Param("q1.name", "Anna", "a name"),
            Param("q1.games", 10, "how many", 0, 100),
            Param("q2.share", 0.5, "how much", 0, 1),
        ),
    )
)


def spec(client: str = "client-1") -> Spec:
    return make_spec(client, shards={"q1-pure": 2, "q2-join": 3, "q2-best": 4, "results": 5})


def test_all_declared_data_sets_are_sound() -> None:
    assert "books" in datasets()
    assert all(dataset_named(name).name == name for name in datasets())


def test_an_unknown_data_set_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no data set 'bokos'.*books"):
        dataset_named("bokos")


def test_without_settings_parameters_have_their_defaults() -> None:
    assert DATASET.parse_params([]) == {"q1.name": "Anna", "q1.games": 10, "q2.share": 0.5}


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("q1.name=Bob", "Bob"),
        ("q1.name=", ""),
        ("q1.name= a=b ", " a=b "),
        ("q1.name=7", "7"),
        ("q1.games=0", 0),
        ("q1.games=100", 100),
        ("q1.games=+7", 7),
        ("q2.share=0", 0.0),
        ("q2.share=1", 1.0),
        ("q2.share=1e-3", 0.001),
    ],
)
def test_a_setting_has_the_type_of_its_default(setting: str, value: object) -> None:
    found = DATASET.parse_params([setting])[setting.partition("=")[0]]
    assert found == value
    assert type(found) is type(value)


def test_the_last_setting_of_a_parameter_counts_and_the_defaults_stay() -> None:
    found = DATASET.parse_params(["q1.games=1", "q1.games=2"])
    assert found["q1.games"] == 2
    assert DATASET.defaults["q1.games"] == 10


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("q1.games", "takes name=value"),
        ("", "takes name=value"),
        ("=5", "no parameter ''"),
        (
            "q9.games=5",
            "no parameter 'q9.games'; did you mean 'q1.games'",
        ),
        ("Q1.games=5", "no parameter"),
        ("q1.games=", "q1.games must be a whole number, not ''"),
        ("q1.games=ten", "must be a whole number"),
        ("q1.games=1.5", "must be a whole number"),
        ("q1.games=1e1", "must be a whole number"),
        ("q1.games=-1", "must be between 0 and 100, not -1"),
        ("q1.games=101", "must be between 0 and 100"),
        ("q1.games=" + "9" * 5000, "must be a whole number"),
        ("q2.share=half", "must be a number"),
        ("q2.share=nan", "must be a number"),
        ("q2.share=inf", "must be a number"),
        ("q2.share=-1e-9", "must be between 0 and 1"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(setting: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        DATASET.parse_params([setting])


def test_a_query_tells_what_it_answers() -> None:
    query = replace(Q1, about="%(q1.games)s games of '%(q1.name)s', %(q2.share)g")
    assert query.describe(DATASET.defaults) == "10 games of 'Anna', 0.5"
    for known in datasets().values():
        for each in known.queries:
            assert "%" not in each.describe(known.defaults)


def test_rows_are_sorted_by_the_order_and_then_by_the_rest() -> None:
    assert Q1.sorted_by == ("n", "game")


def test_lists_are_kept_as_text() -> None:
    assert [kind.sql for kind in ColumnType] == ["TEXT", "INTEGER", "REAL", "TEXT", "TEXT", "TEXT"]


def test_clients_are_told_of_every_kind_of_column() -> None:
    assert json.schema(Kind)["enum"] == [kind.value for kind in ColumnType]


def test_receivers_are_those_who_read_an_input() -> None:
    readers = {name: [stage.name for stage in them] for name, them in DATASET.receivers.items()}
    assert readers == {
        "games": ["q1-pure", "q2-join", "results"],
        "players": ["q2-join", "results"],
        "q1-pure": ["results"],
        "q2-join": ["q2-best"],
        "q2-best": ["results"],
        "results": [],
    }


def test_a_source_is_joined_by_the_stages_that_say_so() -> None:
    assert [stage.name for stage in DATASET.joiners("games")] == ["q2-join"]
    assert DATASET.joiners("players") == ()


def test_all_gateways_together_are_one_sender() -> None:
    assert DATASET.senders("games", spec()) == ("gateway/games",)


def test_every_shard_of_a_keyed_stage_works_for_every_client() -> None:
    assert DATASET.senders("q2-join", spec()) == ("q2-join/0", "q2-join/1", "q2-join/2")
    assert DATASET.shards_of("q2-join", spec()) == (0, 1, 2)


def test_one_shard_of_a_stage_with_one_result_works_for_a_client() -> None:
    used = set()
    for number in range(40):
        each = spec(f"client-{number}")
        (shard,) = DATASET.shards_of("q2-best", each)
        assert DATASET.senders("q2-best", each) == (f"q2-best/{shard}",)
        assert shard == each.shard_for_client("q2-best")
        used.add(shard)
    assert used == {0, 1, 2, 3}


def test_a_queue_is_named_after_its_shard() -> None:
    assert queue_name("q3-join", 12) == "q3-join.12"


def test_the_declaration_of_the_example_is_sound() -> None:
    check(DATASET)


def test_the_home_is_the_last_stage_and_reads_all_sources_and_answers() -> None:
    home = DATASET.stages[-1]
    assert (home.name, home.keyed) == ("results", False)
    assert home.inputs == ("games", "players", "q1-pure", "q2-best")
    assert [stage.name for stage in replace(DATASET, version=4).stages].count("results") == 1


def with_stages(*stages: Stage) -> dict[str, Any]:
    """The declaration with these stages before its own."""
    return {"stages": (*stages, *DATASET.stages)}


def with_source(**changes: Any) -> dict[str, Any]:
    return {"sources": (replace(DATASET.sources[0], **changes), DATASET.sources[1])}


def keyless(frame: pl.DataFrame, params: Params) -> dict[str, Keyed]:
    return {"q1-pure": Keyed(frame), "q2-join": Keyed(frame, "id")}


def wrong_key(frame: pl.DataFrame, params: Params) -> dict[str, Keyed]:
    return {"q1-pure": Keyed(frame, "name"), "q2-join": Keyed(frame, "id")}


def raising(frame: pl.DataFrame, params: Params) -> dict[str, Keyed]:
    return {"q1-pure": Keyed(frame.select("missing"), "id")}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": "My Chess"}, "'My Chess' is not a name"),
        ({"sources": ()}, "at least one source and one query"),
        ({"queries": ()}, "at least one source and one query"),
        ({"sources": DATASET.sources * 2}, "named twice: games"),
        (with_stages(DATASET.stages[0]), "named twice: q1-pure"),
        (with_stages(Stage("games", ("players",), Operator())), "named twice: games"),
        (with_stages(Stage("q 0", ("players",), Operator())), "'q 0' is not a name"),
        ({"params": DATASET.params * 2}, "a parameter is named twice"),
        (
            with_stages(Stage("q0", ("moves",), Operator())),
            r"q0 reads \['moves'\], which no source",
        ),
        (with_stages(Stage("q0", ("results",), Operator())), "which nothing may come after"),
        (with_stages(Stage("q0", ("games",), Operator())), "nothing reads q0"),
        (with_stages(Stage("q0", ("games",), Pure)), "q0 has no operator but"),  # type: ignore[arg-type]
        (with_stages(Stage("q0", ("games",), Operator(), joins=("players",))), "q0 joins what it"),
        (with_stages(Stage("q0", ("games", "players"), Pure())), "stateless and must be keyed"),
        (with_stages(Stage("q0", (), Pure())), "stateless"),
        (with_stages(Stage("q0", ("q1-pure",), Pure())), "stateless"),
        (with_stages(Stage("q0", ("games",), Pure(), keyed=False)), "stateless"),
        (
            with_stages(
                Stage("a", ("games", "c"), Operator()),
                Stage("b", ("a",), Operator()),
                Stage("c", ("b",), Operator()),
            ),
            "in a ring: a -> b -> c -> a|in a ring: b -> c -> a -> b|in a ring: c -> a -> b -> c",
        ),
        (with_stages(Stage("a", ("a",), Operator())), "in a ring: a -> a"),
        ({"queries": (replace(Q1, stage="nowhere"),)}, "reads .'nowhere'.|q1 has no stage nowhere"),
        ({"queries": (Q1, replace(Q1, name="q2"))}, "q1-pure can answer one query only"),
        ({"queries": (*DATASET.queries, DATASET.queries[0])}, "a query is named twice: q1"),
        (
            {"queries": (replace(Q1, order=("moves",)), DATASET.queries[1])},
            r"ordered by \['moves'\]",
        ),
        ({"queries": (replace(Q1, about="%(q9)s"), DATASET.queries[1])}, "does not fit the param"),
        (with_source(kinds={"score": FieldKind.NUMBER}), "kinds are for columns that it needs"),
        (with_source(delimiter=b"::"), "separates nothing"),
        (with_source(route=to("q1-pure")), r"routes rows to \['q1-pure'\], but is read by"),
        (with_source(route=to("q1-pure", "q2-join", "q2-best")), "but is read by"),
        (with_source(route=keyless), "rows for q1-pure need a key"),
        (with_source(route=wrong_key), "rows for q1-pure have no column name"),
        (
            with_source(route=raising),
            "cannot route an empty batch: there is no column 'missing'; known: id, row",
        ),
    ],
)
def test_a_mistake_in_a_declaration_is_found(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        check(with_home(replace(DATASET, **change)))


@pytest.mark.parametrize("name", sorted(datasets()))
def test_a_data_set_of_our_own_is_declared_without_a_mistake(name: str) -> None:
    """They are not checked at each start."""
    check(dataset_named(name))
    rehearse(dataset_named(name))


@given(
    st.lists(
        st.from_regex(r" ?[+-]?[0-9]{1,9}(\.[0-9]{0,5})?([eE][+-]?[0-9]{1,3})? ?", fullmatch=True)
    )
)
def test_decimals_are_sorted_by_value(texts: list[str]) -> None:
    by_key = sorted(texts, key=lambda text: ColumnType.DECIMAL.sort_key(text) or b"")
    assert [Fraction(text.strip(" ")) for text in by_key] == sorted(
        Fraction(text.strip(" ")) for text in texts
    )


def test_durations_are_sorted_by_value() -> None:
    texts = ["PT0S", "PT0.5S", "PT59S", "PT1M", "PT1M0.25S", "PT59M", "PT1H", "P1D", "PT25H", "P1W"]
    assert sorted(texts, key=lambda text: ColumnType.DURATION.sort_key(text) or b"") == texts
