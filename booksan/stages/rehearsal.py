"""A data set is tried out without any rows before a run meets it.

All its functions are called as in a run: those of the sources with a batch without rows, and the
operators, on databases in memory, with what comes of that. So a column or a parameter that there
is not, and a stage that forgets who reads it, are found when the data set is loaded. What stands
in a loop over rows is never reached this way; for names of parameters the code is read as well.
"""

import ast
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from functools import cache, partial
from graphlib import TopologicalSorter
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple, TypeVar

from booksan.errors import UsageError
from booksan.messages import Kind, Message, to_body
from booksan.spec import HOME, Spec
from booksan.stages.check import check_output, routed
from booksan.stages.dataset_errors import Defaults, UnknownParam, explained, unknown_column
from booksan.stages.graph import Dataset, Keyed, Stage
from booksan.stages.operator import Context, Stateful, Stateless
from booksan.state.client import ClientStore, complete_inputs
from booksan.state.database import has_table
from booksan_common.names import nearest

T = TypeVar("T")

#: Pieces of output after which an operator of others, given nothing, may go on for ever.
MAX_PIECES = 100


def rehearse(dataset: Dataset) -> None:
    """UsageError names the part of the data set, and what is wrong there."""
    for source in dataset.sources:
        _check_params(dataset, f"source {source.name}", source.route)
    for stage in dataset.stages:
        _check_params(dataset, f"stage {stage.name}", *vars(stage.operator).values())
    _Rehearsal(dataset).to_the_end()


class _Rehearsal:
    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._spec = Spec(
            client="rehearsal",
            dataset=dataset.name,
            version=dataset.version,
            params=Defaults(dataset.defaults),
            columns={source.name: tuple(source.needed) for source in dataset.sources},
            shards={stage.name: 1 for stage in dataset.stages},
            expires=0,
        )
        #: By who gives them and who gets them.
        self._rows: dict[tuple[str, str], Keyed] = {}

    def to_the_end(self) -> None:
        dataset = self._dataset
        for source in dataset.sources:
            self._keep(source.name, routed(dataset, source))
        order = TopologicalSorter({stage.name: stage.inputs for stage in dataset.stages})
        for name in order.static_order():
            if name in dataset.stage and name != HOME:
                self._keep(name, self._output(dataset.stage[name]))
        self._check_answers()

    def _keep(self, name: str, output: Mapping[str, Keyed]) -> None:
        for reader, keyed in output.items():
            self._rows[name, reader] = keyed

    def _output(self, stage: Stage) -> Mapping[str, Keyed]:
        operator = stage.operator
        output: Mapping[str, Keyed]
        if isinstance(operator, Stateless):
            work = partial(operator.at(self._place(stage.name)).transform, self._message(stage, 0))
            output = _tried(stage, work, self._columns(stage, 0))
        elif isinstance(operator, Stateful):
            with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
                output = self._final(stage, self._begun(stage, operator, db))
        else:
            raise UsageError(
                f"the operator of stage {stage.name} is neither Stateful nor Stateless"
            )
        readers = [each.name for each in self._dataset.receivers[stage.name]]
        check_output(self._dataset, f"stage {stage.name} gives", output, readers)
        return output

    def _begun(self, stage: Stage, operator: Stateful, db: sqlite3.Connection) -> Stateful:
        """The operator at work on its tables."""
        streams = [
            (sender, name)
            for name in stage.inputs
            for sender in self._dataset.senders(name, self._spec)
        ]
        store = ClientStore(Path(":memory:"), db, self._spec, made=False)
        store.create(stage.name, 0, streams, 0)
        bound = operator.at(self._place(stage.name), db)
        _tried(stage, bound.create)
        return bound

    def _final(self, stage: Stage, operator: Stateful) -> Mapping[str, Keyed]:
        """Takes an empty batch of each input, in the order in which they come, and ends."""
        sources = [name for name in self._dataset.source if name in stage.inputs]
        for name in (*sources, *(each for each in stage.inputs if each not in sources)):
            self._take(stage, operator, stage.inputs.index(name))
            complete_inputs(operator.db, [name])
            _tried(stage, partial(operator.input_complete, name))
        output: dict[str, Keyed] = {}
        cursor: str | None = None
        for _ in range(MAX_PIECES):
            piece = _tried(stage, partial(operator.final, cursor))
            if not isinstance(piece.output, Mapping):
                return piece.output
            output.update(piece.output)
            cursor = piece.cursor
            if cursor is None:
                break
        return output

    def _take(self, stage: Stage, operator: Stateful, place: int) -> None:
        message = self._message(stage, place)

        def work() -> None:
            try:
                operator.apply(message, operator.prepare(message))
            except Exception as error:
                # What a stage with state makes of nothing is never sent, and its columns may have
                # no types yet: only names count.
                known = stage.inputs[place] in self._dataset.source
                if known or isinstance(error, UnknownParam) or unknown_column(error):
                    raise

        _tried(stage, work, self._columns(stage, place))

    def _message(self, stage: Stage, place: int) -> Message:
        name = stage.inputs[place]
        (sender,) = self._dataset.senders(name, self._spec)
        body = to_body(self._rows[name, stage.name].frame.clear())
        return Message(self._spec, sender, Kind.BATCH, 0, "", {"rows": 0}, body)

    def _columns(self, stage: Stage, place: int) -> list[str]:
        return self._rows[stage.inputs[place], stage.name].frame.columns

    def _place(self, stage: str) -> Context:
        return Context(self._spec, self._dataset, stage, 0)

    def _check_answers(self) -> None:
        taken = self._taken_names()
        for query in self._dataset.queries:
            if query.name in taken:
                raise UsageError(
                    f"a query may not be named {query.name!r}, which is a table's name; use another"
                )
            found = self._rows[query.stage, HOME].frame.columns
            lacking = sorted(set(query.columns) - set(found))
            if lacking:
                raise UsageError(
                    f"query {query.name} has the columns {lacking}, which stage {query.stage} does "
                    f"not give; {nearest(lacking[0], found)}"
                )

    def _taken_names(self) -> set[str]:
        """Of queries: the home has tables of these names beside the answers, which are tables."""
        home = self._dataset.stage[HOME].operator
        assert isinstance(home, Stateful)
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
            ClientStore(Path(":memory:"), db, self._spec, made=False).create(HOME, 0, (), 0)
            Stateful.create(home.at(self._place(HOME), db))
            return {each.name for each in self._dataset.queries if has_table(db, each.name)}


def _tried(stage: Stage, work: Callable[[], T], columns: Collection[str] = ()) -> T:
    try:
        return work()
    except Exception as error:
        # Whatever the code of a data set raises.
        text = explained(error, columns)
        raise UsageError(f"stage {stage.name} cannot work on no rows: {text}") from error


# -- names of parameters, in the text ----------------------------------------------------------


class _Asked(NamedTuple):
    name: str
    line: int


def _check_params(dataset: Dataset, part: str, *found: object) -> None:
    known = dataset.defaults
    for function in _functions(found):
        file = function.__code__.co_filename
        for asked in _asked(file, function.__code__.co_firstlineno):
            if asked.name not in known:
                raise UsageError(
                    f"{part}: there is no parameter {asked.name!r}; {nearest(asked.name, known)} "
                    f"({Path(file).name}, line {asked.line})"
                )


def _functions(found: Collection[object]) -> Iterator[FunctionType]:
    """These, and those of their own modules that they call by name."""
    waiting = [each for each in found if isinstance(each, FunctionType)]
    seen: set[FunctionType] = set()
    while waiting:
        function = waiting.pop()
        if function in seen:
            continue
        seen.add(function)
        yield function
        for name in _names(function.__code__):
            called = function.__globals__.get(name)
            if isinstance(called, FunctionType) and called.__module__ == function.__module__:
                waiting.append(called)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _asked(file: str, line: int) -> Iterator[_Asked]:
    """Parameters that the function on this line looks up by a name that is written out."""
    for node in _definitions(file).get(line, ()):
        arguments = node.args
        names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
        if "params" not in names:
            continue
        for inner in ast.walk(node):
            match inner:
                case ast.Subscript(
                    value=ast.Name(id="params"), slice=ast.Constant(value=str(name)), lineno=where
                ):
                    yield _Asked(name, where)


@cache
def _definitions(file: str) -> Mapping[int, list[ast.FunctionDef | ast.Lambda]]:
    """The functions of a file by their first lines; of one that cannot be read there are none."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return {}
    found: dict[int, list[ast.FunctionDef | ast.Lambda]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            decorators = getattr(node, "decorator_list", [])
            line = min([node.lineno, *(each.lineno for each in decorators)])
            found.setdefault(line, []).append(node)
    return found
