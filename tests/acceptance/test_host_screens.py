"""What a person at a terminal sees of `booksan host` and `booksan cluster`."""

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Client
from tests.support.command import PATIENCE, Place, wait_until
from tests.support.hosts import command, place_for_hosts, read_json, two_hosts
from tests.support.screen import COLOUR, CTRL_C, Screen, check_screen

#: All that books need.
STAGES = "q1-filter,q2-decades,q3-join,q4-top,q5-percentile,q5-sentiment.0,q5-sentiment.1,results"
TIME = r"\d\d:\d\d:\d\d"

#: Columns, and whether there are colours.
SIZES = [pytest.param(80, True, id="80-colour"), pytest.param(120, False, id="120-plain")]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_for_hosts(tmp_path) as found:
        yield found


def booksan(place: Place, *words: str | Path, columns: int = 80, colour: bool = True) -> Screen:
    env = {"XDG_STATE_HOME": str(place.state)}
    return Screen(
        [sys.executable, "-m", "booksan", *map(str, words)],
        columns=columns,
        rows=24 if columns == 80 else 50,
        env=env,
        colour=colour,
    )


def squeezed(text: str) -> str:
    """Wherever a terminal has wrapped it."""
    return "".join(text.split())


def lines_of(screen: Screen) -> list[str]:
    return [line for line in screen.transcript.splitlines() if line]


@pytest.mark.parametrize(("columns", "colour"), SIZES)
def test_a_host_tells_that_it_is_ready_of_its_runs_and_of_its_end(
    place: Place, tmp_path: Path, columns: int, colour: bool
) -> None:
    client = Client.make(tmp_path / "client", seed=3, reviews=300)
    words = ("host", "--stages", STAGES, "--name", "mine", "--port", "0")
    with booksan(place, *words, columns=columns, colour=colour) as screen:
        screen.wait_for("ready at")
        screen.wait_for("--server http://")
        data = place.state / "booksan/hosts/single/mine"
        url = read_json(data / "gateway-address.json")["url"]
        submitted = command(client.place, *client.words("--server", url))
        assert submitted.code == 0, submitted.err
        run = submitted.document["id"]
        # A home that is killed tells nobody anew that a run began.
        workers = read_json(data / "host-status.json")["workers"]
        home = next(one["pid"] for one in workers if one["name"] == "results.0")
        os.kill(home, signal.SIGKILL)
        screen.wait_for("starts again")
        screen.press(CTRL_C)
        assert screen.end() == 0
    said = lines_of(screen)
    ready = f"booksan: ready at {url}, 7 stages, 9 processes; Ctrl-C ends it"
    how = f"         booksan submit DATASET FILES --out DIR --server {url}"
    first = said.index(ready)
    assert said[first : first + 2] == [ready, how]
    expected = [
        rf"{TIME} run {run} of books begins",
        rf"{TIME} run {run} of books is done: 450 rows, \d+\.\d s",
        rf"{TIME} results\.0 was killed by SIGKILL, pid {home}, after \d+\.\d s; starts again",
        r"booksan: stopping: finishes what is in hand; Ctrl-C again ends it at once",
        r"booksan: stopped",
    ]
    assert len(said) == first + 2 + len(expected), screen.transcript
    for line, pattern in zip(said[first + 2 :], expected, strict=True):
        assert re.fullmatch(pattern, line), line
    assert squeezed(f"booksan: mine starts, data in {data}") in squeezed(screen.transcript)
    assert not COLOUR.search(screen.raw)
    log = (data / "logs/supervisor.log").read_text()
    assert '"event": "started, pid' in log, "all else is in the log"
    assert f'"event": "run {run} of books begins"' in log


def test_a_host_that_cannot_start_says_so_in_a_line(place: Place) -> None:
    words = ("host", "--stages", "q1-filter", "--no-gateway")
    with booksan(place, *words) as first:
        first.wait_for("ready without a gateway, 1 stage, 1 process; Ctrl-C ends it")
        with booksan(place, *words) as second:
            assert second.end() == 2
        said = f"is in use by another host, process {first.process.pid}; use that one"
        assert squeezed(said) in squeezed(second.transcript)
        assert second.transcript.startswith("booksan: ")
        first.press(CTRL_C)
        assert first.end() == 0


@pytest.mark.parametrize(("columns", "colour"), SIZES)
def test_a_cluster_tells_what_starts_how_it_is_used_and_that_it_has_ended(
    place: Place, columns: int, colour: bool
) -> None:
    words = ("cluster", "up", two_hosts(place.root), "--any-ports", "--wait", str(PATIENCE))
    with booksan(place, *words, columns=columns, colour=colour) as screen:
        assert screen.end(2 * PATIENCE) == 0
    found = command(place, "cluster", "status", "--json").document
    one, other = found["gateways"]
    assert lines_of(screen) == [
        "booksan: starts alpha, beta",
        "booksan: two is ready: alpha, beta; `booksan cluster down` ends it",
        "         booksan submit DATASET FILES --out DIR \\",
        f"             --server {one} \\",
        f"             --server {other}",
    ]
    check_screen(screen.transcript)
    with booksan(place, "cluster", "down", columns=columns, colour=colour) as screen:
        assert screen.end() == 0
    directory = place.state / "booksan/clusters/two"
    said = f"booksan: the cluster is stopped; its data is kept in {directory}"
    assert squeezed(screen.transcript) == squeezed(said)
    wait_until(lambda: not place.processes())
