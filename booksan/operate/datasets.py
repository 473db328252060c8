"""The command `datasets`: what there is to ask, and with which parameters."""

from collections.abc import Iterable

from msgspec import to_builtins
from rich import box
from rich.console import Group
from rich.text import Text

from booksan.datasets import broken_datasets, dataset_named, datasets, describe, warn_of_broken
from booksan.errors import UsageError
from booksan.stages.diagram import FORMS
from booksan.stages.graph import Dataset
from booksan_common.commands import print_json
from booksan_common.names import nearest
from booksan_common.terminal import Column, FittedTable, PatientConsole, say

#: Cells to which sentences are narrowed before columns are left out.
NARROW = 16


def datasets_command(name: str | None, *, as_json: bool) -> None:
    found = [dataset_named(name)] if name else list(datasets().values())
    if not name:
        warn_of_broken()
    if as_json:
        document = {"datasets": [to_builtins(describe(dataset)) for dataset in found]}
        broken = {} if name else {"broken": dict(broken_datasets())}
        print_json(document | broken | {"exit_code": 0})
    elif name:
        PatientConsole(highlight=False).print(_whole(found[0]))
    else:
        PatientConsole(highlight=False).print(_list(found))
        say("booksan datasets NAME tells its columns, queries and parameters.")


def graph_command(name: str | None, form: str, *, as_json: bool) -> None:
    """The graph of one data set, and nothing else, so that it can be written to a file."""
    if form not in FORMS:
        raise UsageError(f"there is no graph {form!r}; {nearest(form, FORMS)}")
    if name is None:
        raise UsageError("--graph is of one data set: booksan datasets NAME --graph")
    text = FORMS[form](dataset_named(name))
    if as_json:
        print_json({"graph": text, "exit_code": 0})
    else:
        for line in text.splitlines():
            say(line)


def _table(*columns: Column) -> FittedTable:
    return FittedTable(*columns, look=box.SIMPLE_HEAD)


def _list(found: Iterable[Dataset]) -> FittedTable:
    table = _table(
        Column("data set"),
        Column("files", 1),
        Column("queries", 2, right=True),
        Column("about", wraps=NARROW),
    )
    for dataset in found:
        files = "\n".join(source.file_name or source.name for source in dataset.sources)
        table.add_row(dataset.name, Text(files), len(dataset.queries), dataset.about)
    return table


def _whole(dataset: Dataset) -> Group:
    files = " ".join(f"{source.name.upper()}_CSV" for source in dataset.sources)
    return Group(
        Text(f"{dataset.name}: {dataset.about}" if dataset.about else dataset.name),
        Text(f"booksan run {dataset.name} {files} --out DIR [--set NAME=VALUE ...]"),
        Text(),
        _sources(dataset),
        _queries(dataset),
        _params(dataset),
    )


def _sources(dataset: Dataset) -> FittedTable:
    table = _table(
        Column("source"), Column("file", 1), Column("columns that it needs", wraps=NARROW)
    )
    for source in dataset.sources:
        columns = ", ".join(
            f"{name} ({source.kinds[name].value})" if name in source.kinds else name
            for name in source.needed
        )
        table.add_row(source.name, source.file_name, columns)
    return table


def _queries(dataset: Dataset) -> FittedTable:
    table = _table(
        Column("query"),
        Column("answers", wraps=NARROW),
        Column("with the columns", 1, wraps=NARROW),
    )
    for query in dataset.queries:
        about = query.describe(dataset.defaults)
        table.add_row(query.name, about, ", ".join(query.columns))
    return table


def _params(dataset: Dataset) -> FittedTable:
    table = _table(
        Column("parameter"), Column("default", wraps=NARROW), Column("what it is", wraps=NARROW)
    )
    for param in dataset.params:
        table.add_row(param.name, str(param.default), param.help)
    return table
