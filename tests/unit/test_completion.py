"""The shell's completion, asked in the way in which a shell asks, and quick enough to type with."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from booksan.cli import declared
from booksan.datasets import datasets
from booksan.topology.parse import load_topology
from booksan_client.state import ClientState, StateDirectory

PROGRAM = Path(sys.executable).with_name("booksan")


def complete(*words: str, state: Path | None = None, shell: str = "bash") -> list[str]:
    """What is offered for the last word, which may be empty."""
    done = ask([PROGRAM], *words, state=state, shell=shell)
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


def ask(
    command: Sequence[str | Path],
    *words: str,
    state: Path | None = None,
    shell: str = "bash",
    name: str = "booksan",
) -> "subprocess.CompletedProcess[str]":
    line = " ".join([name, *words])
    asked = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words)),
        "_TYPER_COMPLETE_ARGS": line,
        f"_{name.replace('-', '_').upper()}_COMPLETE": f"complete_{shell}",
        "XDG_STATE_HOME": str(state or "/nonexistent"),
    }
    return subprocess.run(
        command, env=os.environ | asked, capture_output=True, text=True, timeout=60, check=False
    )


CASES: dict[str, tuple[list[str], list[str]]] = {
    "commands": (["c"], ["cancel", "cluster", "chaos"]),
    "subcommands": (["cluster", ""], ["up", "status", "down"]),
    "data sets": (["run", ""], ["aoe2", "books", "flights", "steam"]),
    "the beginning of one": (["submit", "fl"], ["flights"]),
    "a data set to look at": (["datasets", "st"], ["steam"]),
    "a data set to make": (["generate", "a"], ["aoe2"]),
    "a data set to measure": (["bench", "f"], ["flights"]),
    "parameters": (
        ["run", "books", "a", "b", "--set", "q3."],
        ["q3.from_year=1990", "q3.to_year=1999", "q3.min_reviews=500"],
    ),
    "parameters by data set": (
        ["submit", "flights", "--set", "q3."],
        ["q3.min_stopovers=3", "q3.fastest=2"],
    ),
    "formats": (["run", "books", "a", "--format", ""], ["csv", "json", "parquet"]),
    "compression": (["submit", "books", "a", "--compress", "g"], ["gzip"]),
    "topologies": (["host", "--config", ""], ["compose", "single", "three"]),
    "a topology to start": (["cluster", "up", "t"], ["three"]),
    "hosts": (["host", "--config", "three", "--name", ""], ["alpha", "beta", "gamma"]),
    "stages": (["host", "--stages", "q3-j"], ["q3-join"]),
    "shards after a comma": (
        ["host", "--config", "three", "--stages", "q3-join,q5-s"],
        [f"q3-join,q5-sentiment{end}" for end in ("", ".0", ".1")],
    ),
    "targets": (["chaos", "--target", "worker,l"], ["worker,leader"]),
    "options": (["run", "books", "--fo"], ["--format"]),
    "nothing that is known": (["host", "--config", "none.toml", "--name", ""], []),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_known_is_offered(name: str) -> None:
    words, offered = CASES[name]
    assert complete(*words) == offered


def test_another_shell_shows_what_each_is() -> None:
    found = complete("run", "books", "--set", "q4.", shell="zsh")
    assert '"q4.top=10":"how many of the best"' in "".join(found)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A user with two clients, of which one is on this machine too, and a letter."""
    for id in ("birds-1", "birds-2"):
        path = tmp_path / "booksan/clients" / id
        path.mkdir(parents=True, mode=0o700)
        StateDirectory(path).save(ClientState(id, "birds", {}, {}))
    host = tmp_path / "booksan/hosts/single/single"
    (host / "clients/birds-2").mkdir(parents=True)
    (host / "host.json").write_text("{}")
    letters = host / "letters/q3-join-0"
    letters.mkdir(parents=True)
    about = {"stage": "q3-join", "shard": 0, "error": "no such key", "time": 1}
    (letters / "abc123.json").write_text(json.dumps(about))
    (letters / "abc123.msg").write_bytes(b"x")
    return tmp_path


def test_what_this_user_has_is_offered(state: Path) -> None:
    assert complete("results", "", state=state) == ["birds-1", "birds-2"]
    assert complete("cancel", "birds-2", state=state) == ["birds-2"]
    assert complete("chaos", "--until", "b", state=state) == ["birds-1", "birds-2"]
    assert complete("inspect", "", state=state) == ["birds-2"]
    assert complete("letters", "show", "a", state=state) == ["abc123"]
    assert complete("letters", "replay", "", state=state) == ["abc123"]
    host = str(state / "booksan/hosts/single/single")
    assert complete("letters", "remove", "--data-dir", host, "", state=state) == ["abc123"]
    (state / "booksan/clusters/three").mkdir(parents=True)
    (state / "booksan/clusters/three/cluster.json").write_text("{}")
    assert complete("cluster", "down", "", state=state) == ["three"]


def test_what_is_damaged_is_not_told_between_two_keys(state: Path) -> None:
    (state / "booksan/clients/birds-1/client.json").write_text("[")
    assert complete("results", "", state=state) == []


def test_the_client_alone_knows_the_data_sets_of_earlier_runs(state: Path) -> None:
    code = "import sys; sys.argv[0] = 'booksan-client'; from booksan_client.cli import main; main()"
    done = ask([sys.executable, "-c", code], "submit", "b", state=state, name="booksan-client")
    assert (done.stdout, done.stderr) == ("birds\n", "")


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_loaded_that_takes_its_time(name: str, state: Path) -> None:
    """Alone on its processor, each takes less than half a second, most of it the interpreter's."""
    words, _ = CASES[name]
    if words[0] == "bench":
        pytest.skip("its options are those of the data set")
    done = ask([sys.executable, "-X", "importtime", PROGRAM], *words, state=state)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "booksan.cli" in loaded
    heavy = {"polars", "numpy", "textblob", "starlette", "sqlite_utils", "pika", "httpx", "psutil"}
    assert not loaded & (heavy | {"booksan.stages.books", "booksan.transport.rabbitmq"})


@pytest.mark.parametrize("name", datasets())
def test_what_is_read_from_the_text_of_a_data_set_is_what_it_declares(name: str) -> None:
    dataset, found = datasets()[name], declared()[name]
    assert found.params == {f"{each.name}={each.default}": each.help for each in dataset.params}
    assert found.queries == tuple(query.name for query in dataset.queries)
    # The home of clients belongs to all of them.
    stages = [stage.name for stage in dataset.stages if stage.name != "results"]
    assert list(found.stages) == stages


def test_no_data_set_is_left_out() -> None:
    assert list(declared()) == list(datasets())


def test_the_stages_that_are_offered_can_be_picked() -> None:
    offered = complete("host", "--config", "three", "--stages", "")
    topology = load_topology("three")
    several = {stage: count for stage, count in topology.shards.items() if count > 1}
    shards = [f"{stage}.{number}" for stage, count in several.items() for number in range(count)]
    assert offered == sorted([*topology.shards, *shards])
