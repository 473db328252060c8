"""A data set's graph as Mermaid text, or as a picture (SVG), out of its declaration alone.

Sources stand on the left, stages in the middle, and on the right the tables of the home: the
answers, and the counts and rejected rows of the sources. The picture is laid out in layers: a
stage stands to the right of all that it reads, an edge over several layers keeps a lane of its own
in those between, and lanes and boxes are ordered so that few edges cross.
"""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, combinations, pairwise
from typing import NamedTuple
from xml.sax.saxutils import escape

from booksan.spec import HOME
from booksan.stages.graph import Dataset, Query, Source, Stage
from booksan_common.names import plain

#: Characters in a line of a box.
WRAP = 34


class Node(NamedTuple):
    id: str
    #: source, stage or answer: how it is drawn.
    kind: str
    title: str
    lines: tuple[str, ...]


class Edge(NamedTuple):
    start: str
    end: str
    #: The source must be complete here before the next one may begin.
    first: bool = False


@dataclass(frozen=True)
class Graph:
    title: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    @property
    def legend(self) -> str:
        joins = any(edge.first for edge in self.edges)
        return "thick: complete at the stage before the next source begins" if joins else ""


def graph_of(dataset: Dataset) -> Graph:
    """What is to be drawn; the home is drawn as its tables."""
    stages = [stage for stage in dataset.stages if stage.name != HOME]
    nodes = (
        *map(_source, dataset.sources),
        *map(_stage, stages),
        *(_answer(query, dataset) for query in dataset.queries),
        Node("rows", "answer", "rows", ("counted, and those rejected",)),
    )
    edges = [
        Edge(_id(dataset, name), f"stage_{stage.name}", name in stage.joins)
        for stage in stages
        for name in stage.inputs
    ]
    return Graph(dataset.name, nodes, (*edges, *_edges_home(dataset)))


def _edges_home(dataset: Dataset) -> Iterator[Edge]:
    for name in dataset.stage[HOME].inputs:
        if name in dataset.source:
            yield Edge(_id(dataset, name), "rows")
        for query in dataset.queries:
            if query.stage == name:
                yield Edge(_id(dataset, name), f"query_{query.name}")


def _id(dataset: Dataset, name: str) -> str:
    """With its kind before it: a data set's names may be words of Mermaid, such as `end`."""
    return f"source_{name}" if name in dataset.source else f"stage_{name}"


def _source(source: Source) -> Node:
    return Node(f"source_{source.name}", "source", source.name, (source.file_name or "CSV",))


def _stage(stage: Stage) -> Node:
    key = (stage.key or "key") if stage.keyed else "client"
    lines = [f"{type(stage.operator).__name__} by {key}"]
    if stage.joins:
        lines.append(f"joins {', '.join(stage.joins)}")
    if stage.heavy:
        lines.append("costly: more workers")
    return Node(f"stage_{stage.name}", "stage", stage.name, tuple(lines))


def _answer(query: Query, dataset: Dataset) -> Node:
    about = tuple(_wrapped(query.describe(dataset.defaults)))
    return Node(f"query_{query.name}", "answer", query.name, about)


def _wrapped(text: str) -> list[str]:
    """As few lines as can be, all of about the same length."""
    fewest = len(textwrap.wrap(text, WRAP))
    longest = min(WRAP, max(map(len, text.split()), default=1))
    tried = (textwrap.wrap(text, width) for width in range(longest, WRAP + 1))
    return next(lines for lines in tried if len(lines) == fewest)


# -- Mermaid ---------------------------------------------------------------------------------------

#: What stands around the text of a box.
_SHAPES = {"source": ("[(", ")]"), "stage": ("[", "]"), "answer": ("(", ")")}
_ENTITIES = {"#": "#35;", "&": "#amp;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;"}


def mermaid(dataset: Dataset) -> str:
    graph = graph_of(dataset)
    home = [node for node in graph.nodes if node.kind == "answer"]
    lines = [
        *flowchart("LR"),
        *(f"    {_box(node)}" for node in graph.nodes if node not in home),
        f"    subgraph home [{label(f'{HOME}: the home of the client')}]",
        *(f"        {_box(node)}" for node in home),
        "    end",
        *(f"    {edge.start} {'==>' if edge.first else '-->'} {edge.end}" for edge in graph.edges),
    ]
    return "\n".join(lines) + "\n"


def flowchart(direction: str) -> tuple[str, str]:
    """The first lines of a flowchart in which lines are as long as they are written."""
    return '%%{init: {"flowchart": {"wrappingWidth": 500}}}%%', f"flowchart {direction}"


def _box(node: Node) -> str:
    left, right = _SHAPES[node.kind]
    return f"{node.id}{left}{label(node.title, *node.lines)}{right}"


def label(*lines: str) -> str:
    """Text for Mermaid: in quotes, with what has a meaning there written as entities."""
    safe = ("".join(_ENTITIES.get(letter, letter) for letter in plain(line)) for line in lines)
    return f'"{"<br/>".join(safe)}"'


# -- the layout ------------------------------------------------------------------------------------

TITLE_SIZE, TEXT_SIZE = 14, 12
#: Width of a letter against its size: fonts differ, so with room to spare.
TITLE_LETTER, TEXT_LETTER = 0.62, 0.56
LINE = 16
PADDING = 10
#: Between boxes above each other, and between layers, where the edges bend.
GAP, BEND = 14, 84
#: The height of an edge's lane between boxes.
LANE = 4
MARGIN = 16
#: Above the tables of the home.
HEAD = 30
#: After so many rounds nothing gets any better.
ROUNDS = 8


@dataclass(eq=False)
class Slot:
    """A box's place in a layer, or the lane of an edge that passes."""

    layer: int
    height: float
    node: Node | None = None
    before: "list[Slot]" = field(default_factory=list)
    after: "list[Slot]" = field(default_factory=list)
    #: The middle.
    y: float = 0

    @property
    def top(self) -> float:
        return self.y - self.height / 2


@dataclass
class Layout:
    graph: Graph
    layers: list[list[Slot]]
    #: The slots that each edge touches, from its start to its end.
    ways: dict[Edge, list[Slot]]

    @cached_property
    def widths(self) -> list[float]:
        found = ([_width(slot.node) for slot in layer if slot.node] for layer in self.layers)
        return [max(widths, default=0) for widths in found]

    @cached_property
    def lefts(self) -> list[float]:
        steps = [MARGIN, *(width + BEND for width in self.widths)]
        return list(accumulate(steps))[:-1]

    @property
    def width(self) -> float:
        return self.lefts[-1] + self.widths[-1] + PADDING + MARGIN

    @property
    def bottom(self) -> float:
        return max(slot.y + slot.height / 2 for layer in self.layers for slot in layer)


def layout_of(graph: Graph) -> Layout:
    layout = _in_layers(graph)
    _order(layout.layers)
    _align(layout.layers)
    return layout


def _width(node: Node) -> float:
    lines = max(map(len, node.lines), default=0) * TEXT_SIZE * TEXT_LETTER
    return round(max(len(node.title) * TITLE_SIZE * TITLE_LETTER, lines) + 2 * PADDING)


def _height(node: Node) -> float:
    return LINE * (1 + len(node.lines)) + 2 * PADDING


def _in_layers(graph: Graph) -> Layout:
    ranks = _ranks(graph)
    layers: list[list[Slot]] = [[] for _ in range(max(ranks.values()) + 1)]
    boxes = {node.id: Slot(ranks[node.id], _height(node), node) for node in graph.nodes}
    ways: dict[Edge, list[Slot]] = {}
    for edge in graph.edges:
        between = range(ranks[edge.start] + 1, ranks[edge.end])
        ways[edge] = [boxes[edge.start], *(Slot(n, LANE) for n in between), boxes[edge.end]]
        for one, other in pairwise(ways[edge]):
            one.after.append(other)
            other.before.append(one)
    lanes = [slot for way in ways.values() for slot in way[1:-1]]
    for slot in (*boxes.values(), *lanes):
        layers[slot.layer].append(slot)
    return Layout(graph, layers, ways)


def _ranks(graph: Graph) -> dict[str, int]:
    """The layer of each box: right of all that it reads, and those of the home are the last."""
    ranks = {node.id: 0 for node in graph.nodes}
    for _ in graph.nodes:
        for edge in graph.edges:
            ranks[edge.end] = max(ranks[edge.end], ranks[edge.start] + 1)
    last = max(ranks.values())
    answers = (node.id for node in graph.nodes if node.kind == "answer")
    return ranks | dict.fromkeys(answers, last)


def _order(layers: list[list[Slot]]) -> None:
    """Sources and answers stay as declared; those between go where fewest edges cross."""
    for layer, following in reversed(list(pairwise(layers[1:]))):
        places = _places(following)
        means = {slot: _average([places[other] for other in slot.after]) for slot in layer}
        layer.sort(key=means.__getitem__)
    fewest = _crossings(layers)
    for _ in range(ROUNDS):
        for layer in layers[1:-1]:
            for n in range(len(layer) - 1):
                layer[n : n + 2] = layer[n + 1], layer[n]
                found = _crossings(layers)
                if found >= fewest:
                    layer[n : n + 2] = layer[n + 1], layer[n]
                fewest = min(found, fewest)


def _places(layer: Sequence[Slot]) -> dict[Slot, int]:
    return {slot: place for place, slot in enumerate(layer)}


def _crossings(layers: Sequence[Sequence[Slot]]) -> int:
    found = 0
    for layer, following in pairwise(layers):
        places = _places(following)
        ends = [[places[other] for other in slot.after] for slot in layer]
        found += sum(a > b for one, other in combinations(ends, 2) for a in one for b in other)
    return found


def _align(layers: list[list[Slot]]) -> None:
    """Each slot comes as near to the middle of its neighbours as the order lets it."""
    for layer in layers:
        _spread(layer, [0] * len(layer))
    for _ in range(ROUNDS):
        for layer in layers[1:]:
            _spread(layer, [_middle(slot.before, slot.y) for slot in layer])
        for layer in reversed(layers[:-1]):
            _spread(layer, [_middle(slot.after, slot.y) for slot in layer])
    top = min(slot.top for layer in layers for slot in layer)
    for slot in (slot for layer in layers for slot in layer):
        slot.y = round(slot.y - top + MARGIN + HEAD, 1)


def _middle(slots: Sequence[Slot], otherwise: float) -> float:
    return _average([slot.y for slot in slots]) if slots else otherwise


def _spread(layer: Sequence[Slot], wanted: Sequence[float]) -> None:
    """The places nearest to those wanted (least squares) that keep order and distances.

    Without the distances these are growing numbers: neighbours that do not grow become one group
    with the mean of what they want.
    """
    steps = [(one.height + other.height) / 2 + GAP for one, other in pairwise(layer)]
    offsets = list(accumulate(steps, initial=0))
    groups: list[list[float]] = []
    for place, offset in zip(wanted, offsets, strict=False):
        groups.append([place - offset])
        while len(groups) > 1 and _average(groups[-2]) >= _average(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    found = [_average(group) for group in groups for _ in group]
    for slot, place, offset in zip(layer, found, offsets, strict=False):
        slot.y = place + offset


def _average(values: Sequence[float]) -> float:
    return sum(values) / len(values)


# -- SVG -------------------------------------------------------------------------------------------

#: Boxes are light with dark text, all else is grey: readable on a light and on a dark ground.
_STYLE = f"""
text {{ font-family: system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2937; }}
.title {{ font-size: {TITLE_SIZE}px; font-weight: 600; }}
.line {{ font-size: {TEXT_SIZE}px; }}
.legend {{ font-size: {TEXT_SIZE}px; fill: #7d8590; }}
.box {{ stroke-width: 1.2; }}
.source {{ fill: #dbeafe; stroke: #3b82f6; }}
.stage {{ fill: #fef3c7; stroke: #d97706; }}
.answer {{ fill: #dcfce7; stroke: #16a34a; }}
.home {{ fill: #f1f5f9; stroke: #94a3b8; }}
.edge {{ fill: none; stroke: #7d8590; stroke-width: 1.3; }}
.first {{ stroke-width: 3; }}
.arrow {{ fill: #7d8590; }}
"""
#: How far the head of an arrow reaches beyond the line's end.
_HEAD = 8


def _arrow(name: str, size: int) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="0" refY="4" markerWidth="{_HEAD}" '
        f'markerHeight="{size}" markerUnits="userSpaceOnUse" preserveAspectRatio="none" '
        'orient="auto"><path class="arrow" d="M0 0L8 4L0 8z"/></marker>'
    )


def svg(dataset: Dataset) -> str:
    layout = layout_of(graph_of(dataset))
    legend = layout.graph.legend
    width = max(layout.width, 2 * MARGIN + 40 + len(legend) * TEXT_SIZE * TEXT_LETTER)
    height = layout.bottom + PADDING + MARGIN + (2 * LINE if legend else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" role="img">',
        f"<title>The data set {escape(layout.graph.title)}</title>",
        f"<style>{_STYLE}</style>",
        f"<defs>{_arrow('arrow', 8)}{_arrow('first-arrow', 11)}</defs>",
        _home(layout),
        *_edges(layout),
        *_boxes(layout),
        *_legend(legend, height - MARGIN),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _boxes(layout: Layout) -> Iterator[str]:
    for slot in (slot for layer in layout.layers for slot in layer):
        if slot.node is None:
            continue
        left, width = layout.lefts[slot.layer], layout.widths[slot.layer]
        radius = 4 if slot.node.kind == "stage" else 12
        yield (
            f'<rect class="box {slot.node.kind}" x="{left:g}" y="{slot.top:g}" '
            f'width="{width:g}" height="{slot.height:g}" rx="{radius}"/>'
        )
        baseline = slot.top + PADDING + LINE - 4
        yield _text("title", left + PADDING, baseline, slot.node.title)
        for n, line in enumerate(slot.node.lines, start=1):
            yield _text("line", left + PADDING, baseline + n * LINE, line)


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(plain(text))}</text>'


def _home(layout: Layout) -> str:
    """The frame around the home's tables."""
    left, top = layout.lefts[-1] - PADDING, layout.layers[-1][0].top - HEAD
    last = layout.layers[-1][-1]
    width, height = layout.widths[-1] + 2 * PADDING, last.y + last.height / 2 + PADDING - top
    place = f'x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}"'
    return f'<rect class="home" {place} rx="14"/>' + _text(
        "title", left + PADDING, top + 20, f"{HOME}: the home"
    )


def _legend(text: str, y: float) -> Iterator[str]:
    if text:
        yield f'<path class="edge first" d="M{MARGIN} {y - 4:g}h30"/>'
        yield _text("legend", MARGIN + 40, y, text)


def _edges(layout: Layout) -> Iterator[str]:
    leaving = _ports(layout, 0, 1)
    arriving = _ports(layout, -1, -2)
    for edge, way in layout.ways.items():
        kind, arrow = ("edge first", "first-arrow") if edge.first else ("edge", "arrow")
        yield (
            f'<path class="{kind}" d="{_path(layout, way, leaving[edge], arriving[edge])}" '
            f'marker-end="url(#{arrow})"><title>{edge.start} to {edge.end}</title></path>'
        )


def _path(layout: Layout, way: Sequence[Slot], leaving: float, arriving: float) -> str:
    """It bends between layers, and goes straight on within them."""
    x, y = layout.lefts[way[0].layer] + layout.widths[way[0].layer], leaving
    path = f"M{x:g} {y:g}"
    for slot in way[1:-1]:
        left = layout.lefts[slot.layer]
        path += _bend(x, y, left, slot.y)
        x, y = left + layout.widths[slot.layer], slot.y
        path += f"H{x:g}"
    return path + _bend(x, y, layout.lefts[way[-1].layer] - _HEAD, arriving)


def _bend(x: float, y: float, to_x: float, to_y: float) -> str:
    middle = (x + to_x) / 2
    return f"C{middle:g} {y:g} {middle:g} {to_y:g} {to_x:g} {to_y:g}"


def _ports(layout: Layout, end: int, next_to_end: int) -> dict[Edge, float]:
    """Where edges touch a box: side by side, in the order of where they go or come from."""
    at: dict[Slot, list[Edge]] = {}
    for edge, way in sorted(layout.ways.items(), key=lambda item: item[1][next_to_end].y):
        at.setdefault(way[end], []).append(edge)
    return {
        edge: round(slot.y + slot.height * ((n + 1) / (len(edges) + 1) - 0.5), 1)
        for slot, edges in at.items()
        for n, edge in enumerate(edges)
    }


#: What a picture can be made as, by the name that the command knows it by.
FORMS: Mapping[str, Callable[[Dataset], str]] = {"mermaid": mermaid, "svg": svg}
