"""The commands that the README shows are run as they stand there."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from booksan.generate.books import generate_books
from tests.oracle.books import answers
from tests.support.command import PATIENCE, QUERIES, Place, wait_until
from tests.support.hosts import place_for_hosts, read_json

README = Path(__file__).parents[2] / "README.md"


def block(name: str) -> str:
    found = re.search(rf"<!-- test: {name} -->\n```sh\n(.*?)```", README.read_text("utf-8"), re.S)
    assert found is not None
    return found.group(1)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_for_hosts(tmp_path) as found:
        yield found


def test_a_whole_run_with_curl_gives_the_answers(place: Place) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    files = place.root / "small"
    files.mkdir()
    books, reviews = generate_books(files, books=200, reviews=900, seed=4).paths
    with place.started(["host", "--listen", "127.0.0.1:0"]) as host:
        address = place.state / "booksan/hosts/single/single/gateway-address.json"
        wait_until(lambda: read_json(address) or host.poll() is not None)
        url = read_json(address)["url"]
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block("curl")],
            cwd=place.root,
            env=place.environment({"URL": f"{url}/v1", "DATA": str(files)}),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        clients = place.state / "booksan/hosts/single/single/clients"
        wait_until(lambda: not any(clients.iterdir()))
        host.terminate()
        assert host.wait(PATIENCE) == 0
    found = {name: (place.root / f"{name}.csv").read_bytes() for name in QUERIES}
    assert found == answers(books, reviews, {"q2.decades": 3, "q3.min_reviews": 5})
