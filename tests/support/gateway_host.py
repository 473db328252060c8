"""A real host with workers and a gateway on the spool, and a client that speaks HTTP to it."""

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from booksan.gateway.config import (
    ADDRESS_FILE,
    GatewayConfig,
    read_address,
    write_gateway_config,
)
from booksan.host.config import HostConfig, WorkerSpec, write_config
from booksan.host.handle import Host
from booksan.host.status import read_status
from tests.support.data import Sample, shards

SHARDS = shards(2, 1)
GATEWAY = WorkerSpec("gateway", 0, entry="booksan.gateway.main:run")
CONFIG = GatewayConfig("alpha", "127.0.0.1:0", "test", SHARDS)
ENVIRONMENT = {
    "POLARS_MAX_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "BOOKSAN_SYNCHRONOUS": "OFF",
    "BOOKSAN_OPERATOR_TOKEN": "the-operators-token",
}
OPERATOR = {"Authorization": "Bearer the-operators-token"}
DEADLINE = 120.0


def wait_for(ready: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + DEADLINE
    while not (found := ready()):
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.02)
    return found


@dataclass
class Running:
    root: Path
    host: Host
    url: str

    def client(self, name: str, secret: str = "") -> "HttpClient":
        return HttpClient(self.url, name, secret or f"the secret of {name}!")

    def gateway_pid(self) -> int | None:
        status = read_status(self.root)
        assert status is not None
        return next(worker.pid for worker in status.workers if worker.name == "gateway.0")

    def log(self) -> str:
        return (self.root / "logs" / "gateway.0.log").read_text()


@contextmanager
def running(
    root: Path,
    config: GatewayConfig = CONFIG,
    env: Mapping[str, str] | None = None,
    *,
    stages: Collection[str] = tuple(SHARDS),
    **options: Any,
) -> Iterator[Running]:
    """With workers of these stages only: one who does not ask for answers needs few of them.

    `options`: of the host.
    """
    specs = [WorkerSpec(stage, number) for stage in stages for number in range(SHARDS[stage])]
    write_config(root, HostConfig((*specs, GATEWAY), **options))
    write_gateway_config(root, config)
    # Where an earlier one listened.
    (root / ADDRESS_FILE).unlink(missing_ok=True)
    with Host(root, ENVIRONMENT | dict(env or {})) as host:
        address = wait_for(lambda: read_address(root))
        yield Running(root, host, address["url"])


class HttpClient:
    """One client, by raw requests."""

    def __init__(self, url: str, name: str, secret: str) -> None:
        self.name = name
        self.path = f"/v1/clients/{name}"
        self.http = httpx.Client(
            base_url=url, trust_env=False, timeout=90, headers={"Booksan-Secret": secret}
        )

    def __enter__(self) -> "HttpClient":
        return self

    def __exit__(self, *reason: object) -> None:
        self.http.close()

    def create(self, data: Sample, **changes: Any) -> httpx.Response:
        body = {
            "id": self.name,
            "dataset": data.dataset,
            "params": data.params,
            "columns": data.columns,
        } | changes
        return self.http.post("/v1/clients", json=body)

    def put(
        self, source: str, number: int, data: bytes, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        path = f"{self.path}/sources/{source}/batches/{number}"
        return self.http.put(path, content=data, headers=headers)

    def end(self, source: str, batches: int) -> httpx.Response:
        return self.http.post(f"{self.path}/sources/{source}/end", json={"batches": batches})

    def get(self, path: str = "", **query: Any) -> httpx.Response:
        return self.http.get(self.path + path, params=query)

    def status(self) -> dict[str, Any]:
        answer = self.get()
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def wait(self, ready: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """By long polls, as a client waits."""
        deadline = time.monotonic() + DEADLINE
        status = self.status()
        while not ready(status):
            assert time.monotonic() < deadline, status
            status = self.get(wait=5, seen=status["version"]).json()
        return status

    def upload(self, data: Sample, source: str) -> None:
        """Every batch, in no good order, when the permit is there."""
        self.wait(lambda status: source in status["permits"])
        batches = data.batches[source]
        for number in reversed(range(len(batches))):
            answer = self.put(source, number, batches[number])
            assert answer.status_code == 200, answer.text
        answer = self.end(source, len(batches))
        assert answer.status_code == 200, answer.text

    def run(self, data: Sample) -> dict[str, Any]:
        """Up to the end of the run, whatever it is."""
        answer = self.create(data)
        assert answer.status_code in (200, 201), answer.text
        for source in data.batches:
            self.upload(data, source)
        return self.wait(lambda status: status["state"] in ("done", "failed"))

    def answers(self, form: str = "csv") -> dict[str, bytes]:
        return {
            query: self.get(f"/results/{query}", format=form).content
            for query in ("q1", "q2", "q3", "q4", "q5")
        }


def error_of(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of an answer that must be an error."""
    error = json.loads(answer.content)["error"]
    assert error["message"], answer.text
    return answer.status_code, error["code"]
