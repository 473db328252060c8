"""The documents tell what the code does: each option, parameter, exit code and dependency."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from booksan import errors
from booksan.bench.runner import benchmarks
from booksan.cli import app
from booksan.datasets import datasets
from booksan.errors import EXIT_NOT_WELL
from booksan.gateway import errors as gateway_errors
from booksan.gateway.config import GatewayConfig
from booksan.gateway.openapi import document
from booksan.host import status
from booksan.stages.graph import Param
from booksan_common import errors as client_errors
from booksan_common import errors as common_errors
from booksan_common.errors import EXIT_CODES

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


@pytest.mark.parametrize("name", GatewayConfig.__struct_fields__[7:])
def test_the_page_on_the_service_tells_of_every_limit(name: str) -> None:
    assert f"`{name}`" in (ROOT / "docs/service.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", document(GatewayConfig("h", "127.0.0.1:0", "t", {}))["paths"])
def test_the_page_on_http_tells_of_every_path(path: str) -> None:
    assert f"{path}`" in (ROOT / "docs/http.md").read_text(encoding="utf-8")


def error_codes() -> Iterator[tuple[str, str]]:
    """(status, code) of every answer that a gateway gives instead of what was asked for."""
    for path in (ROOT / "booksan/gateway").glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and len(call.args) > 1:
                name = getattr(call.func, "id", getattr(call.func, "attr", ""))
                values = [getattr(each, "value", None) for each in call.args[:2]]
                if name in ("Problem", "__init__") and all(
                    isinstance(v, int | str) for v in values
                ):
                    yield str(values[0]), str(values[1])
    yield from ((str(status), code) for status, code in gateway_errors._CODES.items())
    yield from (("404", f"unknown_{kind}") for kind in ("source", "query", "dataset"))


@pytest.mark.parametrize(("status", "code"), sorted(set(error_codes())))
def test_the_page_on_http_tells_of_every_error_code(status: str, code: str) -> None:
    page = (ROOT / "docs/http.md").read_text(encoding="utf-8")
    (line,) = (line for line in page.splitlines() if line.startswith(f"| {status} |"))
    assert f"`{code}`" in line


def test_the_page_on_http_tells_of_no_error_code_that_is_not_there() -> None:
    page = (ROOT / "docs/http.md").read_text(encoding="utf-8")
    table = "\n".join(line for line in page.splitlines() if re.match(r"\| [45][0-9]{2} ", line))
    told = set(re.findall(r"`([a-z_]+)`", table)) - {"how"}
    assert told == {code for _, code in error_codes()} | {"bad_request"}


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


def test_the_readme_has_the_table_of_exit_codes() -> None:
    part = README[README.index("### Exit codes") :]
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", part[: part.index("\n### ", 5)], re.M)
    assert {int(code): meaning for code, meaning in rows} == EXIT_CODES


def test_every_exit_code_is_in_the_table() -> None:
    kinds = [*vars(errors).values(), *vars(client_errors).values()]
    told = {
        each.exit_code for each in kinds if isinstance(each, type) and hasattr(each, "exit_code")
    }
    told |= {EXIT_NOT_WELL, status.EXIT_GAVE_UP, status.EXIT_LOCKED, status.EXIT_CANNOT_START}
    assert told | {0} == EXIT_CODES.keys()


def test_every_dependency_is_named_with_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    reasons = page[page.index("## Dependencies") :]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["bench"]]
    for requirement in wanted:
        assert re.split("[<>=]", requirement)[0] in reasons


def test_every_error_is_drawn_in_the_tree() -> None:
    for module in (common_errors, errors):
        for kind in vars(module).values():
            if isinstance(kind, type) and kind.__module__ == module.__name__:
                assert kind.__name__ in str(module.__doc__)


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
    own = re.compile(rf"{name}|duckdb_{name}|polars_{name}|runner")
    # The path of the package begins with a data set's name.
    word = re.compile(rf"[\"' ]{name}[\"' ]")
    for path in [*ROOT.glob("booksan/**/*.py"), *ROOT.glob("client/*/**/*.py")]:
        if not own.match(path.stem) and path.parent.name not in ("generate", "sentiment"):
            lines = path.read_text().splitlines()
            # The examples of help texts can be typed as they are.
            found = [line for line in lines if word.search(line) and "booksan " not in line]
            assert not found, path
