"""Data flows one way, and so do imports: the check of the map in docs/architecture.md."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "booksan": ROOT / "booksan",
    "booksan_client": ROOT / "client/booksan_client",
    "booksan_common": ROOT / "client/booksan_common",
}

#: Rooms, the highest first. A module imports from its own room and from lower layers, nothing else.
LAYERS = (
    {"__main__"},
    {"cli"},
    {"bench", "chaos", "doctor", "operate"},
    {"local"},
    {"cluster"},
    {"gateway", "topology", "worker"},
    {"datasets"},
    {"answers", "home", "partition"},
    {"stages", "supervisor"},
    {"membership", "state"},
    {"broker", "host", "messages", "news", "tickets"},
    {"generate", "sentiment", "spec", "transport"},
    {"booksan_client", "errors", "logs"},
    {"clock", "events", "heartbeat", "language", "shards"},
    {"booksan", "booksan_common"},
)
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}

#: What a stage may not know of: how its rows come and go, and who runs it.
UNKNOWN_TO_STAGES = {
    "transport",
    "worker",
    "gateway",
    "supervisor",
    "membership",
    "host",
    "cluster",
}

#: Where SQL may stand: with the tables of state, with those of operators and the home, and in what
#: knows no table at all (`inspect` copies all that it finds, and asks what its user asks).
SQL_STANDS_IN = {
    "booksan.state",
    "booksan.stages.operators",
    "booksan.home",
    "booksan.operate.inspect",
    "booksan.bench",
}
SQL = re.compile(r"(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|PRAGMA|ATTACH|DETACH) ")


def _modules() -> dict[str, Path]:
    found = {}
    for package, directory in PACKAGES.items():
        for path in directory.rglob("*.py"):
            parts = path.relative_to(directory).with_suffix("").parts
            inner = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join((package, *inner))] = path
    return found


MODULES = _modules()


def room_of(module: str) -> str:
    package, _, rest = module.partition(".")
    return rest.partition(".")[0] if package == "booksan" and rest else package


def imported(path: Path) -> Iterator[str]:
    """Modules of ours that are imported anywhere in the file, also within functions.

    What only a type checker sees does not count.
    """
    for node in _nodes(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in MODULES or node.module in MODULES:
                    yield whole if whole in MODULES else node.module


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from _nodes(node)


def test_every_module_has_a_layer() -> None:
    assert {room_of(module) for module in MODULES} == LEVEL.keys()


@pytest.mark.parametrize("room", sorted(LEVEL))
def test_no_import_points_up_or_sideways(room: str) -> None:
    wrong = [
        f"{module} imports {other}"
        for module, path in MODULES.items()
        if room_of(module) == room
        for other in imported(path)
        if room_of(other) != room and LEVEL[room_of(other)] <= LEVEL[room]
    ]
    assert not wrong


def test_no_modules_import_each_other_in_a_circle() -> None:
    edges = {module: set(imported(path)) - {module} for module, path in MODULES.items()}
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, " -> ".join((*way, module))
        if module not in done:
            for other in sorted(edges[module]):
                visit(other, (*way, module))
            done.add(module)

    for module in sorted(edges):
        visit(module, ())


def test_stages_know_nothing_of_queues_and_processes() -> None:
    known = {
        room_of(other)
        for module, path in MODULES.items()
        if room_of(module) == "stages"
        for other in imported(path)
    }
    assert not known & UNKNOWN_TO_STAGES


def _strings(path: Path) -> Iterator[str]:
    """What stands in a file's strings, without docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value.strip()


def test_sql_stands_with_the_tables_that_it_is_about() -> None:
    wrong = [
        f"{module}: {text}"
        for module, path in MODULES.items()
        if not any(f"{module}.".startswith(f"{room}.") for room in SQL_STANDS_IN)
        for text in _strings(path)
        if SQL.match(text)
    ]
    assert not wrong


def test_what_inspects_all_databases_knows_no_table_of_them() -> None:
    known = {
        name
        for module, path in MODULES.items()
        if module.startswith("booksan.state.") or module == "booksan.home"
        for text in _strings(path)
        for name in re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?([a-z_]+)", text)
    }
    asked = " ".join(_strings(MODULES["booksan.operate.inspect"]))
    assert {"meta", "streams", "permits", "tombstones"} <= known
    assert not {name for name in known if re.search(rf"(FROM|INTO|UPDATE) {name}\b", asked)}
