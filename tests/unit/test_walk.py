"""docs/walk.md leads through code that is there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STEPS = re.findall(r"^\d+\. (.*)$", (ROOT / "docs/walk.md").read_text(encoding="utf-8"), re.M)


def names_in(path: Path) -> set[str]:
    """Functions and classes, and methods with the name of their class before them."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (each for each in node.body if hasattr(each, "name"))
            found |= {f"{node.name}.{each.name}" for each in methods}
    return found


def test_it_is_short_enough_to_be_walked() -> None:
    assert 1 <= len(STEPS) <= 15


@pytest.mark.parametrize("step", STEPS)
def test_every_step_is_there(step: str) -> None:
    words = re.findall(r"`([^`]+)`", step)
    assert words
    known: set[str] = set()
    for word in words:
        if word.endswith(".py"):
            known = names_in(ROOT / word)
        else:
            assert word in known, word
