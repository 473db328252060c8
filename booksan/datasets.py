"""The command `datasets`: what there is to ask, and with which parameters."""

import json
from collections.abc import Iterable

import typer
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from booksan.gateway.describe import describe
from booksan.stages.datasets import dataset_named, datasets
from booksan.stages.graph import Dataset
from booksan_client.terminal import PatientConsole


def datasets_command(name: str | None, *, as_json: bool) -> None:
    found = [dataset_named(name)] if name else list(datasets().values())
    if as_json:
        described = [describe(dataset) for dataset in found]
        typer.echo(json.dumps(described, ensure_ascii=False, indent=2))
    elif name:
        PatientConsole(highlight=False).print(_whole(found[0]))
    else:
        PatientConsole(highlight=False).print(_list(found))
        typer.echo("booksan datasets NAME tells its columns, queries and parameters.")


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _list(found: Iterable[Dataset]) -> Table:
    table = _table("data set", "files", "queries", "about")
    for dataset in found:
        files = "\n".join(source.file_name or source.name for source in dataset.sources)
        table.add_row(dataset.name, files, str(len(dataset.queries)), Text(dataset.about))
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


def _sources(dataset: Dataset) -> Table:
    table = _table("source", "file", "columns that it needs")
    for source in dataset.sources:
        columns = ", ".join(
            f"{name} ({source.kinds[name].value})" if name in source.kinds else name
            for name in source.needed
        )
        table.add_row(source.name, source.file_name, Text(columns))
    return table


def _queries(dataset: Dataset) -> Table:
    table = _table("query", "answers", "with the columns")
    for query in dataset.queries:
        about = query.describe(dataset.defaults)
        table.add_row(query.name, Text(about), Text(", ".join(query.columns)))
    return table


def _params(dataset: Dataset) -> Table:
    table = _table("parameter", "default", "what it is")
    for param in dataset.params:
        table.add_row(param.name, Text(str(param.default)), Text(param.help))
    return table
