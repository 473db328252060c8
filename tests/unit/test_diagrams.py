"""Pictures tell what the code does: nothing is left out, and the page is what the code gives."""

from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from booksan.cli import app
from booksan.datasets import dataset_named, datasets
from booksan.spec import HOME
from booksan.stages.diagram import mermaid, svg
from booksan.stages.graph import Dataset
from booksan.topology.parse import load_topology
from booksan.worker.shard import POINTS
from scripts.diagrams import PAGE, STEPS, TIMES, deployment, life, page, processes

SVG = "{http://www.w3.org/2000/svg}"

of_every_data_set = pytest.mark.parametrize(
    "dataset", [pytest.param(found, id=name) for name, found in datasets().items()]
)


def edges(dataset: Dataset) -> set[tuple[str, str]]:
    """What is read by whom, by the names in pictures; at the home, by the table that gets it."""
    tables = {query.stage: f"query_{query.name}" for query in dataset.queries}
    found = set()
    for stage in dataset.stages:
        for name in stage.inputs:
            start = f"source_{name}" if name in dataset.source else f"stage_{name}"
            end = tables.get(name, "rows") if stage.name == HOME else f"stage_{stage.name}"
            found.add((start, end))
    return found


# -- Mermaid ---------------------------------------------------------------------------------------


@of_every_data_set
def test_every_stage_stands_in_the_text_with_its_operator_and_key(dataset: Dataset) -> None:
    text = mermaid(dataset)
    for stage in dataset.stages:
        if stage.name != HOME:
            key = stage.key if stage.keyed else "client"
            operator = type(stage.operator).__name__
            assert f'stage_{stage.name}["{stage.name}<br/>{operator} by {key}' in text
    for source in dataset.sources:
        assert f'("{source.name}<br/>{source.file_name}")' in text
    for query in dataset.queries:
        assert f'query_{query.name}("{query.name}<br/>' in text


@of_every_data_set
def test_every_edge_stands_in_the_text_once_and_no_other(dataset: Dataset) -> None:
    lines = [line.split() for line in mermaid(dataset).splitlines()]
    found = [(line[0], line[2]) for line in lines if len(line) == 3 and line[1] in ("-->", "==>")]
    assert sorted(found) == sorted(edges(dataset))


@of_every_data_set
def test_what_is_joined_has_a_thick_edge(dataset: Dataset) -> None:
    thick = {line.strip() for line in mermaid(dataset).splitlines() if "==>" in line}
    joined = {
        f"source_{name} ==> stage_{stage.name}" for stage in dataset.stages for name in stage.joins
    }
    assert thick == joined


@of_every_data_set
def test_a_stage_has_a_word_for_its_key_if_it_is_keyed(dataset: Dataset) -> None:
    assert {stage.name for stage in dataset.stages if stage.key} == {
        stage.name for stage in dataset.stages if stage.keyed
    }


HOSTILE = 'a "quote" <b>&amp; `#1; ]) %% end \x1b'


def hostile() -> Dataset:
    """A data set with a text that means something to Mermaid and XML."""
    (source, *sources) = dataset_named("books").sources
    return replace(dataset_named("books"), sources=(replace(source, file_name=HOSTILE), *sources))


def test_no_text_of_a_data_set_breaks_out_of_its_box() -> None:
    (line,) = (line for line in mermaid(hostile()).splitlines() if "source_books[" in line)
    inside = line.strip().removeprefix('source_books[("books<br/>').removesuffix('")]')
    assert not set(inside) & {'"', "<", ">", "`", "\x1b"}
    assert "#quot;quote#quot; #lt;b#gt;#amp;amp; #96;#35;1;" in inside


# -- SVG -------------------------------------------------------------------------------------------


class Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "Box") -> bool:
        beside = self.right <= other.left or other.right <= self.left
        return not beside and self.bottom > other.top and other.bottom > self.top


def box(rect: Any) -> Box:
    x, y, width, height = (float(rect.get(key)) for key in ("x", "y", "width", "height"))
    return Box(x, y, x + width, y + height)


def boxes(picture: Any) -> list[Box]:
    return [box(one) for one in picture.iter(f"{SVG}rect") if "box" in one.get("class")]


@of_every_data_set
def test_no_two_boxes_overlap(dataset: Dataset) -> None:
    found = boxes(ElementTree.fromstring(svg(dataset)))
    tables = len(dataset.queries) + 1
    assert len(found) == len(dataset.sources) + len(dataset.stages) - 1 + tables
    assert not [(one, other) for one, other in combinations(found, 2) if one.meets(other)]


@of_every_data_set
def test_the_picture_has_all_boxes_inside_and_only_the_tables_in_the_home(dataset: Dataset) -> None:
    picture = ElementTree.fromstring(svg(dataset))
    width, height = (float(str(picture.get(key))) for key in ("width", "height"))
    found = boxes(picture)
    assert all(0 < b.left < b.right < width and 0 < b.top < b.bottom < height for b in found)
    (home,) = (box(one) for one in picture.iter(f"{SVG}rect") if one.get("class") == "home")
    assert sum(one.meets(home) for one in found) == len(dataset.queries) + 1


@of_every_data_set
def test_the_picture_has_the_edges_of_the_text(dataset: Dataset) -> None:
    picture = ElementTree.fromstring(svg(dataset))
    titles = [one.findtext(f"{SVG}title") for one in picture.iter(f"{SVG}path")]
    found = sorted(title for title in titles if title)
    assert found == sorted(f"{start} to {end}" for start, end in edges(dataset))


@of_every_data_set
def test_no_edge_passes_through_a_box(dataset: Dataset) -> None:
    picture = ElementTree.fromstring(svg(dataset))
    found = boxes(picture)
    for path in picture.iter(f"{SVG}path"):
        if path.findtext(f"{SVG}title"):
            for x, y in points(str(path.get("d"))):
                assert not [b for b in found if b.left < x < b.right and b.top < y < b.bottom]


def points(path: str) -> list[tuple[float, float]]:
    """Some points of a path of curves (C) and horizontal lines (H)."""
    words = path.replace("M", "").replace("C", " C ").replace("H", " H ").split()
    x, y = float(words.pop(0)), float(words.pop(0))
    found: list[tuple[float, float]] = []
    while words:
        if words.pop(0) == "H":
            to_x = float(words.pop(0))
            found += [(x + (to_x - x) * n / 20, y) for n in range(21)]
            x = to_x
        else:
            a, b, c, d, to_x, to_y = (float(words.pop(0)) for _ in range(6))
            for n in range(21):
                t, s = n / 20, 1 - n / 20
                found.append(
                    (
                        s**3 * x + 3 * s * s * t * a + 3 * s * t * t * c + t**3 * to_x,
                        s**3 * y + 3 * s * s * t * b + 3 * s * t * t * d + t**3 * to_y,
                    )
                )
            x, y = to_x, to_y
    return found


@of_every_data_set
def test_the_picture_needs_nothing_from_elsewhere(dataset: Dataset) -> None:
    text = svg(dataset)
    assert "href" not in text
    assert "@import" not in text
    assert text.count("http") == 1, "only the name of its language"


def test_a_picture_is_xml_whatever_its_texts_are() -> None:
    texts = [one.text for one in ElementTree.fromstring(svg(hostile())).iter(f"{SVG}text")]
    assert HOSTILE.replace("\x1b", " ") in texts


# -- the command -----------------------------------------------------------------------------------


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["datasets", *words])


@pytest.mark.parametrize(
    "words",
    [
        ("books", "--graph"),
        ("--graph", "mermaid", "books"),
        ("books", "--graph=mermaid"),
        ("--graph", "--", "books"),
    ],
)
def test_the_command_prints_mermaid_with_and_without_the_word(words: tuple[str, ...]) -> None:
    assert run(*words).stdout == mermaid(dataset_named("books"))


def test_the_command_prints_the_picture() -> None:
    assert run("flights", "--graph", "svg").stdout == svg(dataset_named("flights"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("books", "--graph", "sgv"), "there is no graph 'sgv'; did you mean 'svg'?"),
        (("--graph", "books"), "there is no graph 'books'; known: mermaid, svg"),
        (("--graph",), "--graph is of one data set"),
    ],
)
def test_a_graph_that_there_is_not_is_a_matter_of_usage(words: tuple[str, ...], told: str) -> None:
    done = run(*words)
    assert done.exit_code == 2
    assert told in done.stderr
    assert not done.stdout


# -- the page --------------------------------------------------------------------------------------


def test_the_page_is_what_the_code_gives() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make diagrams`"


@of_every_data_set
def test_the_page_has_the_graph_of_every_data_set(dataset: Dataset) -> None:
    assert f"```mermaid\n{mermaid(dataset)}```" in page()


def test_the_pictures_of_hosts_have_all_shards_gateways_and_the_broker() -> None:
    single, three = load_topology("single"), load_topology("three")
    for topology, text in ((single, processes(single)), (three, deployment(three))):
        for host in topology.hosts.values():
            assert host.url in text
            assert all(str(shard) in text for shard in host.shards)
    assert three.queues.url in deployment(three)


def test_the_life_of_a_message_has_all_crash_points_in_order() -> None:
    notes = [line for line in life(POINTS).splitlines() if "Note over worker: " in line]
    assert [line.rpartition(": ")[2] for line in notes] == list(POINTS)
    assert STEPS.keys() == set(POINTS)
    assert TIMES.keys() <= set(POINTS)
