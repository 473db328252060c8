"""The soak can be stopped and goes on behind its last round; its page can be made at any time."""

from pathlib import Path

import pytest

from tests.soak.__main__ import _run, write
from tests.soak.figures import PAGE, PARTS, Broken, Figures, Returns, read_figures, render
from tests.soak.journal import Journal, Round
from tests.soak.parts import BrokenOnPurpose, Part, Simulation

SHORT = 3


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "deep" / "journal.jsonl")


def make_page(journal: Journal, root: Path) -> str:
    write(journal, root / "page.md", root / "parts")
    return (root / "page.md").read_text(encoding="utf-8")


def test_a_short_soak_makes_the_page(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.soak.parts.CHUNK", SHORT)
    monkeypatch.setattr(BrokenOnPurpose, "rounds", 1)
    assert _run([Simulation, BrokenOnPurpose], journal, 1.0)
    (first, *_) = journal.rounds("simulation")
    assert first.runs == SHORT
    page = make_page(journal, tmp_path)
    assert "| Simulated clusters |" in page
    assert f"| {sum(one.faults.get('kill', 0) for one in journal.rounds('simulation'))} |" in page


def test_a_soak_that_was_stopped_goes_on_behind_its_last_round(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[int] = []

    def round(part: Part, number: int) -> Round:
        if len(done) == 2:
            done.append(-1)
            raise KeyboardInterrupt
        done.append(number)
        return Round(part.name, number, 0.1, 1, outcomes={"right": 1})

    monkeypatch.setattr(Simulation, "round", round)
    monkeypatch.setattr(Simulation, "rounds", 4)
    assert _run([Simulation], journal, 60)
    assert _run([Simulation], journal, 60)
    assert done == [0, 1, -1, 2, 3]
    assert [one.number for one in journal.rounds("simulation")] == [0, 1, 2, 3]


def test_what_a_round_has_found_fails_the_soak_and_stands_on_the_page(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = Round("simulation", 0, 1.0, 1, outcomes={"hung": 1}, findings=["seed 5: hung"])
    monkeypatch.setattr(Simulation, "round", lambda part, number: bad)
    monkeypatch.setattr(Simulation, "rounds", 1)
    assert not _run([Simulation], journal, 60)
    page = make_page(journal, tmp_path)
    assert "| Simulated clusters | 1 | 0 | 0.0 | 0 | 0 | 1 |" in page
    assert "- seed 5: hung" in page


def test_a_part_that_brings_its_own_figures_is_on_the_page() -> None:
    """As the parts do that are run elsewhere: one file of figures each is all that they need."""
    part = Figures(
        "power",
        "Power cuts",
        "The disk forgets what was not synced.",
        "make power",
        runs=2,
        faults={"cut": 7},
        returns={"host": Returns.of([1.0, 2.0, 9.0])},
        broken=[Broken("no sync", 3, 1), Broken("no lock", None, None)],
        notes=["One run was slow."],
    )
    page = render([part])
    assert "| Power cuts | 2 | 7 | 0.0 | 0 | 0 | 0 |\n| **all** | 2 | 7 |" in page
    assert "| host | 3 | 2.0 | 9.0 | 9.0 |" in page
    assert "| no lock | not found | not found |" in page
    assert page.endswith("- One run was slow.\n")


def test_the_page_is_made_of_the_figures_that_are_there() -> None:
    parts = [read_figures(path) for path in sorted(PARTS.glob("*.json"))]
    assert parts
    assert PAGE.read_text(encoding="utf-8") == render(parts)
