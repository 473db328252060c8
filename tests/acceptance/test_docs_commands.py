"""Every shell line of README and docs is run as it stands there, or listed with the reason why not.

The public data sets are stood in for by small files of the same names.
"""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from booksan.cli import app
from tests.support.command import PATIENCE, Place, wait_until
from tests.support.hosts import place_for_hosts, read_json

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

RUN_BOOKS = "booksan run books books_data.csv Books_rating.csv --out answers"
SUBMIT = "booksan submit books books_data.csv Books_rating.csv --out answers"
HOST = "booksan host"
#: Run by the tests below, in this order; CLIENT is put in.
LOCAL = (
    RUN_BOOKS,
    "booksan run flights airports-codepublic.csv itineraries.csv --out answers",
    "booksan run aoe2 matches.csv match_players.csv --out answers",
    "booksan run steam games.csv reviews.csv --out answers",
    "booksan datasets",
    "booksan generate books --out data --rows 100000 --seed 1",
)
SERVED = (
    "booksan status",
    "booksan inspect",
    "booksan inspect --sql 'select stage, shard, batches, of_batches, phase from progress'",
    "booksan inspect CLIENT --sql 'select * from progress'",
    "booksan inspect CLIENT --db all.db",
    "sqlite3 all.db 'select stage, sum(rows) from progress group by stage'",
    "booksan letters list",
    "booksan list",
    "booksan results CLIENT --out answers",
    SUBMIT,
)
CANCEL = "booksan cancel CLIENT"
SECRETS = "scripts/secrets"
TOKEN = "export BOOKSAN_TOKEN=$(sed -n 's/^BOOKSAN_TOKEN=//p' .env)"
DOCTOR = "booksan doctor"
ELECTION = "python -m tests.simulation.election --seeds 17 --trace"
HERE = {*LOCAL, *SERVED, CANCEL, HOST, SECRETS, TOKEN, DOCTOR, ELECTION}

WHEELS = "tests/acceptance/test_wheels.py"
PICKED = "tests/acceptance/test_picked_hosts.py"
CLUSTER = "tests/acceptance/test_cluster.py"
CONTAINERS = "tests/docker/test_containers.py"
BENCH = "tests/integration/test_bench.py"
BENCH_SETS = "tests/integration/test_bench_sets.py"
#: Where the same is run in another way (on free ports, with fewer rows), or why it is not.
ELSEWHERE = {
    "make demo": "installs from an index; what it runs afterwards is run here",
    "python3 -m venv venv": WHEELS,
    ". venv/bin/activate": WHEELS,
    "pip install .": WHEELS,
    "booksan host --stages q3-join,q5-sentiment,results": PICKED,
    "booksan host --stages q1-filter,q2-decades,q4-top,q5-percentile": PICKED,
    f"{SUBMIT} --server http://127.0.0.1:7302": PICKED,
    "scripts/rabbitmq": "installs a package of the system",
    "booksan cluster up three --with-broker": CLUSTER,
    "booksan cluster status": CLUSTER,
    f"{SUBMIT} --server http://127.0.0.1:7301 --server http://127.0.0.1:7302": CLUSTER,
    "booksan chaos --target worker,leader,host,broker --for 60s": "tests/acceptance/test_chaos.py",
    "booksan cluster down": CLUSTER,
    "booksan host --config hosts/three.toml --name alpha": "needs a broker at its fixed port",
    "docker-compose up -d": CONTAINERS,
    "docker-compose --profile client run --rm demo": CONTAINERS,
    'docker kill "$(docker-compose ps -q gamma)"': CONTAINERS,
    "docker-compose logs -f alpha beta": "follows logs for ever",
    "booksan cluster status --compose booksan --watch": CONTAINERS,
    "booksan chaos --compose booksan --target worker,leader,host,broker --for 60s": CONTAINERS,
    "booksan chaos --compose PROJECT --target worker,leader,host,broker --for 60s": CONTAINERS,
    f"{SUBMIT} --server http://127.0.0.1:7300 --server http://127.0.0.1:7302": CONTAINERS,
    "BOOKSAN_REVIVAL=none BOOKSAN_RESTART=on-failure DOCKER_SOCKET=/dev/null "
    "docker-compose up -d": CONTAINERS,
    "DOCKER_SOCKET=/dev/null docker-compose -f docker-compose.yaml "
    "-f docker-compose.door.yaml up -d": "needs an engine; tests/unit/test_engine_proxy.py is near",
    "datasette all.db": "a program of others",
    "booksan bench books": BENCH,
    "booksan bench books --rows 20000": BENCH,
    "booksan bench flights": BENCH_SETS,
    "booksan bench aoe2": BENCH_SETS,
    "booksan bench steam": BENCH_SETS,
    "booksan bench sentiment": BENCH,
    "python -m booksan.bench.duckdb_books books_data.csv Books_rating.csv OUT "
    "--set q3.min_reviews=50": BENCH,
    "python -m booksan.bench.polars_books books_data.csv Books_rating.csv OUT": BENCH,
    "python -m booksan.bench.duckdb_flights airports-codepublic.csv itineraries.csv "
    "OUT": BENCH_SETS,
    "python -m tests.simulation.election --seeds 0:100000": "takes long; `make soak` runs as many",
}
#: Blocks that are no commands, by the beginning of their first line.
NO_SHELL = (
    "...",
    "client --HTTP-->",
    "booksan/",
    "booksan: ",
    "queues/<",
    "[hosts",
    "name =",
)
#: Fences that hold something else, or that another test runs (`curl`: test_readme.py).
NO_SHELL_FENCES = ("python", "toml", "csv", "mermaid", "curl")


class Block(NamedTuple):
    #: The language of a fence, or the name of the test that runs it.
    mark: str
    lines: list[str]


def blocks() -> Iterator[Block]:
    """Fenced and indented blocks; continued lines are one."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        fence = re.compile(r"^(?:<!-- test: (\w+) -->\n)?```(\w*)\n(.*?)^```$", re.S | re.M)
        for found in fence.finditer(text):
            yield Block(found[1] or found[2], _lines(found[3]))
        rest = fence.sub("", text)
        for found in re.finditer(r"(?:^\n|^#.*\n)((?:^ {4,}\S.*\n|^\n(?= {4}))+)", rest, re.M):
            yield Block("", _lines(found[1]))


def _lines(text: str) -> list[str]:
    """Without the remarks behind them."""
    joined = re.sub(r" *\\\n\s*", " ", text).splitlines()
    return [re.sub(r"\s+#.*", "", line.strip()) for line in joined if line.strip()]


def commands() -> list[str]:
    return [
        line
        for block in blocks()
        if block.mark not in NO_SHELL_FENCES and not block.lines[0].startswith(NO_SHELL)
        for line in block.lines
    ]


def test_every_line_is_run_or_has_a_reason() -> None:
    found = set(commands())
    assert found - HERE - ELSEWHERE.keys() == set(), "neither run nor listed"
    assert (HERE | ELSEWHERE.keys()) - found == set(), "listed, but in no document"


@pytest.mark.parametrize("place", sorted({v for v in ELSEWHERE.values() if v.startswith("tests/")}))
def test_the_other_tests_are_there(place: str) -> None:
    assert (ROOT / place).exists()


def inline() -> list[str]:
    """Commands within sentences, and in blocks."""
    texts = (page.read_text(encoding="utf-8") for page in PAGES)
    found = {line for text in texts for line in re.findall(r"`(booksan [a-z][^`\n]*)`", text)}
    return sorted(found | {line for line in commands() if line.startswith("booksan ")})


@pytest.mark.parametrize("line", inline())
def test_every_command_has_the_options_that_it_is_shown_with(line: str) -> None:
    command: Any = typer.main.get_command(app)
    words = shlex.split(line)[1:]
    while words and hasattr(command, "get_command"):
        name = words.pop(0)
        if "|" in name or name.isupper():
            return
        found = command.get_command(typer.Context(command), name)
        assert found is not None, f"there is no command {name!r}"
        command = found
    known = {option for param in command.params for option in param.opts} | {"--help"}
    if command.context_settings.get("allow_extra_args"):
        return
    assert {word.split("=")[0] for word in words if word.startswith("--")} <= known


class Shell:
    """Runs lines as they stand there, in a directory with the files that they name."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.root = place.root / "here"
        self.root.mkdir()
        for name, rows in (("books", 300), ("flights", 60), ("aoe2", 60), ("steam", 60)):
            self.run(f"booksan generate {name} --out . --rows {rows} --seed 1")

    def environment(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return self.place.environment({"PATH": path, "BOOKSAN_OPERATOR_TOKEN": "an-operator-token"})

    def run(self, line: str, *, good: tuple[int, ...] = (0,), cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            cwd=cwd or self.root,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
            check=False,
        )
        assert done.returncode in good, f"{line}: {done.returncode}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout

    @contextmanager
    def host(self) -> Iterator[None]:
        """The line `booksan host`, until the block ends."""
        log = (self.place.root / "host.log").open("wb")
        with (
            log,
            subprocess.Popen(
                shlex.split(HOST), cwd=self.root, env=self.environment(), stdout=log, stderr=log
            ) as process,
        ):
            try:
                address = self.place.state / "booksan/hosts/single/single/gateway-address.json"
                wait_until(lambda: read_json(address) or process.poll() is not None)
                assert process.poll() is None, (self.place.root / "host.log").read_text()
                yield
                process.terminate()
                assert process.wait(PATIENCE) == 0
            finally:
                process.kill()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with place_for_hosts(tmp_path) as place:
        yield Shell(place)


def test_lines_that_need_no_server(shell: Shell) -> None:
    for line in LOCAL:
        shell.run(line)
        if line.startswith("booksan run"):
            assert (shell.root / "answers/q1.csv").exists(), line
    # What it finds is about this machine.
    assert "python" in shell.run(DOCTOR, good=(0, 9)).lower()
    shell.run(ELECTION, cwd=ROOT)


def test_lines_about_a_host_that_stays_up(shell: Shell) -> None:
    with socket.socket() as port:
        port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            port.bind(("127.0.0.1", 7300))
        except OSError:
            pytest.skip("another process has the port 7300, which the README names")
    with shell.host():
        client = "client-of-the-readme"
        shell.run(f"{SUBMIT} --detach --id {client}")
        for line in SERVED:
            if line.startswith("sqlite3") and shutil.which("sqlite3") is None:
                continue
            shell.run(line.replace("CLIENT", client))
        assert (shell.root / "answers/q5.csv").exists()
        shell.run(f"{SUBMIT} --detach --id {client}-2 --new")
        shell.run(CANCEL.replace("CLIENT", f"{client}-2"))


def test_the_secrets_of_containers_and_the_token_for_clients(shell: Shell) -> None:
    (shell.root / "scripts").mkdir()
    shutil.copy(ROOT / SECRETS, shell.root / SECRETS)
    shell.run(SECRETS)
    assert len(shell.run(f"{TOKEN}; echo $BOOKSAN_TOKEN").strip()) >= 16
