"""The documents tell what the code does: each option, parameter, exit code and dependency."""

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer

from booksan import errors
from booksan.bench.registry import benchmarks
from booksan.cli import app
from booksan.errors import BooksanError
from booksan.gateway.config import GatewayConfig
from booksan.gateway.openapi import document
from booksan.stages.datasets import datasets
from booksan.stages.graph import Param

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS: Any = typer.main.get_command(app)


def options_of(*path: str) -> list[str]:
    command: Any = COMMANDS
    for name in path:
        command = command.get_command(typer.Context(command), name)
    return [
        option
        for param in command.params
        if param.param_type_name == "option" and not getattr(param, "hidden", False)
        for option in param.opts
        if option.startswith("--") and option not in ("--help",)
    ]


@pytest.mark.parametrize("option", options_of("run"))
def test_the_readme_tells_of_every_option_of_run(option: str) -> None:
    assert f"{option}" in README


@pytest.mark.parametrize(
    "option", options_of("host") + options_of("cluster", "up") + options_of("chaos")
)
def test_the_page_on_the_service_tells_of_every_option_of_hosts(option: str) -> None:
    assert f"`{option}" in (ROOT / "docs/service.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [field.name for field in fields(GatewayConfig)][7:])
def test_the_page_on_the_service_tells_of_every_limit(name: str) -> None:
    assert f"`{name}`" in (ROOT / "docs/service.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", document(GatewayConfig("h", "127.0.0.1:0", "t", {}))["paths"])
def test_the_page_on_http_tells_of_every_path(path: str) -> None:
    assert f"{path}`" in (ROOT / "docs/http.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", COMMANDS.commands)
def test_the_readme_tells_of_every_command(command: str) -> None:
    assert f"booksan {command}" in README


@pytest.mark.parametrize(
    "option", sorted({option for name in benchmarks() for option in options_of("bench", name)})
)
def test_the_page_on_benchmarks_tells_of_every_option_of_bench(option: str) -> None:
    assert f"`{option}" in (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "param",
    [param for dataset in datasets().values() for param in dataset.params],
    ids=lambda param: param.name,
)
def test_the_page_on_queries_tells_of_every_parameter_with_its_default(param: Param) -> None:
    lines = [
        line
        for line in (ROOT / "docs/queries.md").read_text(encoding="utf-8").splitlines()
        if re.search(rf"(^|[ |,]){re.escape(param.name)}([ |,]|$)", line) and line.startswith("|")
    ]
    default = param.default if isinstance(param.default, str) else f"{param.default:g}"
    assert any(default in line for line in lines)


def test_the_readme_tells_of_every_exit_code() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    codes = {kind.exit_code for kind in kinds if issubclass(kind, BooksanError)} | {0, 130}
    for code in codes:
        assert f"\n| {code} |" in README


def test_every_dependency_is_named_with_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    reasons = page[page.index("## Dependencies") :]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["bench"]]
    for requirement in wanted:
        assert re.split("[<>=]", requirement)[0] in reasons


def test_every_error_is_drawn_in_the_tree() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    for kind in kinds:
        assert kind.__name__ in str(errors.__doc__)


def test_every_command_has_a_help_text() -> None:
    def check(command: Any) -> None:
        assert command.help or command.short_help
        context = typer.Context(command)
        for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
            check(command.get_command(context, name))

    check(COMMANDS)


@pytest.mark.parametrize("name", datasets())
def test_a_data_sets_name_stands_in_its_own_modules_only(name: str) -> None:
    """All else works for any data set, also for one that another package brings."""
    own = re.compile(rf"{name}|duckdb_{name}|polars_{name}|registry")
    # The path of the package begins with a data set's name.
    word = re.compile(rf"[\"' ]{name}[\"' ]")
    for path in [*ROOT.glob("booksan/**/*.py"), *ROOT.glob("client/booksan_client/**/*.py")]:
        if not own.match(path.stem) and path.parent.name not in ("generate", "sentiment"):
            found = [line for line in path.read_text().splitlines() if word.search(line)]
            assert not found, path
