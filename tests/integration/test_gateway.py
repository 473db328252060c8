"""Whole runs over HTTP, against a real host with workers and a gateway."""

import gzip
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import zstandard
from msgspec.structs import replace

from booksan.answers import Format, write_answer
from booksan.datasets import dataset_named
from booksan.gateway.config import read_address
from booksan.home import HomeView
from booksan.shards import shard_of
from booksan.tickets import load_secret
from booksan_client.wire import Request as WireRequest
from booksan_client.wire import Wire
from tests.simulation.test_hard_numbers import hard_sample
from tests.support.data import PARAMS, Sample, sample
from tests.support.gateway_host import (
    CONFIG,
    OPERATOR,
    SHARDS,
    HttpClient,
    Running,
    error_of,
    running,
    wait_for,
)

BOOKS = dataset_named("books")


@pytest.fixture(scope="module")
def alpha(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("alpha")) as found:
        yield found
    assert found.log() == "", "a quiet gateway logs nothing"


@pytest.fixture(scope="module")
def data() -> Sample:
    return sample(5, books=60, reviews=80, dirty=True)


def test_a_run_gives_the_oracles_answers_in_every_format(
    alpha: Running, data: Sample, tmp_path: Path
) -> None:
    with alpha.client("whole") as client:
        status = client.run(data)
        assert (status["state"], status["failed"]) == ("done", None)
        assert client.answers() == data.answers
        view = HomeView(alpha.root, "whole", 0)
        for query in BOOKS.queries:
            rows = view.answer(query)
            for form in Format:
                written = write_answer(tmp_path, query, rows, form).read_bytes()
                found = client.get(f"/results/{query.name}", format=form.value)
                assert found.content == written, (query.name, form)
        view.close()
        acknowledge_and_ask_again(client, alpha)


def acknowledge_and_ask_again(client: HttpClient, alpha: Running) -> None:
    for _ in range(2):
        answer = client.http.post(f"{client.path}/acknowledge")
        assert (answer.status_code, answer.json()) == (200, {"how": "done"})
    for path in ("", "/results/q1", "/rejected", "/events"):
        answer = client.get(path)
        assert error_of(answer) == (410, "gone")
        assert answer.json()["error"]["how"] == "done"
    assert error_of(client.put("books", 0, b"")) == (410, "gone")
    wait_for(lambda: not (alpha.root / "clients" / client.name).exists())


def test_pages_are_parts_of_the_sorted_answer_with_native_values(
    alpha: Running, data: Sample
) -> None:
    with alpha.client("pages") as client:
        client.run(data)
        whole = json.loads(client.get("/results/q3", format="json").content)
        assert len(whole) > 2
        first = client.get("/results/q3", limit=2).json()
        rest = client.get("/results/q3", offset=2).json()
        assert first["rows"] + rest["rows"] == whole
        assert (first["total"], first["complete"], rest["offset"]) == (len(whole), True, 2)
        assert first["columns"] == {"title": "TEXT", "authors": "LIST", "reviews": "INTEGER"}
        assert first["about"] == "books of 1960 to 1999 with at least 1 reviews"
        assert isinstance(first["rows"][0]["authors"], list)
        rejected_rows_are_told(client, data)


def test_pitfall_a_mean_beyond_all_floats_is_told_in_every_format(
    alpha: Running, tmp_path: Path
) -> None:
    data = hard_sample(tmp_path, "books", ["1e400", "3"])
    with alpha.client("beyond") as client:
        assert client.run(data)["state"] == "done"
        assert client.answers() == data.answers
        page = client.get("/results/q4")
        assert page.status_code == 200
        assert page.json()["rows"][0] == {"rank": 1, "title": "Same", "mean_score": "inf"}
        assert "Infinity" not in client.get("/results/q4", format="json").text


def rejected_rows_are_told(client: HttpClient, data: Sample) -> None:
    page = client.get("/rejected").json()
    expected = [(name, row) for name, rows in data.rejected.items() for row in rows]
    assert [(row["source"], row["row"]) for row in page["rows"]] == expected
    assert page["total"] == len(expected) > 1
    assert client.get("/rejected", offset=1, limit=1).json()["rows"] == page["rows"][1:2]
    assert client.get("/rejected", source="reviews").json()["total"] == len(
        data.rejected["reviews"]
    )
    lines = client.get("/rejected", format="csv").text.splitlines()
    assert lines[0] == "source,row,reason"
    assert len(lines) == 1 + len(expected)
    assert error_of(client.get("/rejected", source="nothing")) == (404, "unknown_source")


def test_batches_sent_again_and_compressed_change_nothing(alpha: Running, data: Sample) -> None:
    packed = {
        "gzip": gzip.compress,
        "zstd": zstandard.ZstdCompressor().compress,
    }
    with alpha.client("again") as client:
        client.create(data)
        for source, batches in data.batches.items():
            client.wait(lambda status, source=source: source in status["permits"])  # type: ignore[misc]
            for number, batch in enumerate(batches):
                first = client.put(source, number, batch)
                for encoding, pack in packed.items():
                    headers = {"Content-Encoding": encoding}
                    again = client.put(source, number, pack(batch), headers)
                    assert (again.status_code, again.json()) == (200, first.json())
            for _ in range(2):
                assert client.end(source, len(batches)).json() == {}
        status = client.wait(lambda status: status["state"] in ("done", "failed"))
        assert status["failed"] is None
        assert client.answers() == data.answers


def test_an_id_is_found_again_with_the_same_spec_and_refused_with_another(
    alpha: Running, data: Sample
) -> None:
    with alpha.client("twice") as client, alpha.client("twice", "another secret!!") as other:
        first = client.create(data)
        again = client.create(data)
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json()["ticket"] == again.json()["ticket"]
        headers = {name: ",".join(columns) for name, columns in data.columns.items()}
        assert client.create(data, columns=headers).status_code == 200
        assert error_of(client.create(data, params=PARAMS | {"q4.top": 6})) == (409, "other_spec")
        other_columns = data.columns | {"books": (*data.columns["books"], "more")}
        assert error_of(client.create(data, columns=other_columns)) == (409, "other_spec")
        assert error_of(other.create(data)) == (403, "wrong_secret")
        assert client.http.delete(client.path).json() == {"how": "cancelled"}
        assert client.http.delete(client.path).json() == {"how": "cancelled"}
        gone = client.create(data)
        assert (*error_of(gone), gone.json()["error"]["how"]) == (410, "gone", "cancelled")
        # Whose it was is remembered as long as that it was.
        for answer in (other.create(data), other.get(), other.http.delete(other.path)):
            assert error_of(answer) == (403, "wrong_secret")


def test_a_run_that_is_begun_anew_gives_its_answers(alpha: Running, data: Sample) -> None:
    with alpha.client("anew") as client, alpha.client("anew", "not the one of anew") as other:
        client.create(data)
        client.upload(data, "books")
        assert error_of(other.create(data, generation=1)) == (403, "wrong_secret")
        assert error_of(client.create(data, generation=-1)) == (422, "unusable")
        anew = client.create(data, generation=1)
        assert (anew.status_code, anew.json()["generation"]) == (201, 1)
        assert all(source["batches"] == 0 for source in anew.json()["sources"].values())
        late = client.create(data)
        assert (late.status_code, late.json()["generation"]) == (200, 1)
        for source in data.batches:
            client.upload(data, source)
        assert client.wait(lambda status: status["state"] in ("done", "failed"))["state"] == "done"
        assert client.answers() == data.answers


def test_a_queue_that_is_lost_is_named_and_filled_at_once(tmp_path: Path, data: Sample) -> None:
    """With workers that are not there yet, so that everything waits in the queues and is lost."""
    env = {"BOOKSAN_STALLED_AFTER": "1", "BOOKSAN_LOST_AFTER": "2"}
    first = [stage for stage in SHARDS if stage != "q3-join"]
    with running(tmp_path, env=env, stages=first) as host, host.client("lossy") as client:
        client.create(data)
        client.wait(lambda status: "books" in status["permits"])
        for number, batch in enumerate(data.batches["books"]):
            assert client.put("books", number, batch).status_code == 200
        assert client.end("books", len(data.batches["books"])).status_code == 200
    for shard in range(SHARDS["q3-join"]):
        shutil.rmtree(tmp_path / "queues" / f"q3-join.{shard}")
    with running(tmp_path, env=env) as host, host.client("lossy") as client:
        lost = wait_for(lambda: client.get(stages="true").json().get("resend"))
        assert lost == {"books": {"batches": [[0, len(data.batches["books"]) - 1]], "end": True}}
        client.upload(data, "books")
        client.upload(data, "reviews")
        assert client.wait(lambda status: status["state"] in ("done", "failed"))["state"] == "done"
        assert client.answers() == data.answers


def test_output_that_a_queue_lost_is_sent_again(tmp_path: Path, data: Sample) -> None:
    """By the servers themselves: the home asks, and the stage still has what it sent."""
    env = {"BOOKSAN_STALLED_AFTER": "1"}
    first = [stage for stage in SHARDS if stage not in ("q4-top", "q5-percentile")]
    with running(tmp_path, env=env, stages=first) as host, host.client("lossy") as client:
        client.create(data)
        for source in data.batches:
            client.upload(data, source)
        client.wait(lambda status: all(status["answers"][q]["complete"] for q in ("q2", "q3")))
        wait_for(lambda: any((tmp_path / "queues" / "q5-percentile.0").glob("*")))
        wait_for(lambda: client.get(stages="true").json()["stages"]["q5-sentiment"]["done"])
    for stage in ("q4-top", "q5-percentile"):
        shutil.rmtree(tmp_path / "queues" / f"{stage}.0")
    with running(tmp_path, env=env) as host, host.client("lossy") as client:
        assert client.wait(lambda status: status["state"] in ("done", "failed"))["state"] == "done"
        assert client.answers() == data.answers


def test_two_who_create_the_same_id_at_once_get_one_run(alpha: Running, data: Sample) -> None:
    clients = [alpha.client("race", f"the secret of racer {n}") for n in range(4)]
    answers: list[httpx.Response] = []
    threads = [
        threading.Thread(target=lambda client=client: answers.append(client.create(data)))
        for client in clients
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    codes = sorted(answer.status_code for answer in answers)
    assert codes == [201, 403, 403, 403]
    for client in clients:
        client.http.close()


def test_the_same_number_with_other_bytes_fails_the_run(alpha: Running, data: Sample) -> None:
    with alpha.client("other-bytes") as client:
        client.create(data)
        client.put("books", 0, data.batches["books"][0])
        client.put("books", 0, data.batches["books"][1])
        status = client.wait(lambda status: status["state"] == "failed")
        assert "batch 0 of gateway/books came twice" in status["failed"]
        assert client.http.post(f"{client.path}/acknowledge").json() == {"how": "done"}


def test_another_end_fails_the_run(alpha: Running, data: Sample) -> None:
    with alpha.client("other-end") as client:
        client.create(data)
        client.end("books", 3)
        client.end("books", 4)
        status = client.wait(lambda status: status["state"] == "failed")
        assert "ended with 3 and with 4" in status["failed"]


def test_what_is_too_early_is_refused_and_says_so(alpha: Running, data: Sample) -> None:
    with alpha.client("early") as client:
        assert error_of(client.get()) == (404, "unknown_client")
        assert error_of(client.put("books", 0, b"")) == (404, "unknown_client")
        status = client.create(data).json()
        permit = {"Booksan-Permit": status["permits"]["books"]}
        ticket = {"Booksan-Ticket": status["ticket"]}
        batch = data.batches["reviews"][0]
        for headers in ({}, permit, ticket, ticket | permit):
            assert error_of(client.put("reviews", 0, batch, headers)) == (409, "not_yet")
        assert error_of(client.end("reviews", 1)) == (409, "not_yet")
        assert error_of(client.put("nothing", 0, b"")) == (404, "unknown_source")
        assert error_of(client.get("/results/q1", format="csv")) == (409, "not_complete")
        assert client.get("/results/q1").json()["complete"] is False
        assert error_of(client.get("/results/q9")) == (404, "unknown_query")
        refused = client.http.post(f"{client.path}/acknowledge")
        assert error_of(refused) == (409, "not_complete")


def test_missing_batches_are_named(alpha: Running, data: Sample) -> None:
    with alpha.client("gaps") as client:
        client.create(data)
        assert client.put("books", 3, data.batches["books"][3]).status_code == 200
        status = client.wait(lambda status: status["sources"]["books"]["batches"] == 1)
        assert status["sources"]["books"]["missing"] == [0, 1, 2]
        assert client.put("books", 10**9, b"").status_code == 200
        status = client.wait(lambda status: status["sources"]["books"]["batches"] == 2)
        assert status["sources"]["books"]["missing"] == [0, 1, 2, *range(4, 11)]


def test_a_poll_is_held_until_something_changes(alpha: Running, data: Sample) -> None:
    with alpha.client("polls") as client:
        status = client.create(data).json()
        held = client.get(wait="0.3", seen=status["version"]).json()
        assert held["version"] == status["version"]
        timer = threading.Timer(0.2, client.put, ("books", 0, data.batches["books"][0]))
        timer.start()
        news = client.get(wait=30, seen=status["version"]).json()
        timer.join()
        assert news["version"] != status["version"]
        assert news["sources"]["books"]["batches"] == 1


def test_events_tell_every_change_and_the_end(alpha: Running, data: Sample) -> None:
    with alpha.client("events") as client, alpha.client("events") as listener:
        client.create(data)
        found: list[str] = []

        def listen() -> None:
            with listener.http.stream("GET", f"{listener.path}/events") as answer:
                assert answer.headers["Content-Type"].startswith("text/event-stream")
                found.extend(answer.iter_lines())

        thread = threading.Thread(target=listen)
        thread.start()
        client.run(data)
        thread.join(60)
        assert not thread.is_alive()
    names = [line for line in found if line.startswith("event: ")]
    assert names[-1] == "event: end"
    assert names.count("event: status") >= 2
    states = [json.loads(line[6:])["state"] for line in found if line.startswith("data: ")]
    assert states[0] == "uploading"
    assert states[-1] == "done"


def test_stages_tell_how_far_each_of_them_is(alpha: Running, data: Sample) -> None:
    with alpha.client("stages") as client:
        client.run(data)
        status = client.get(stages="true").json()
        assert set(status["stages"]) == set(BOOKS.stage)
        assert all(stage["done"] for stage in status["stages"].values())
        join = status["stages"]["q3-join"]
        assert join["shards"] == 2
        assert join["batches"] == join["of_batches"] == 2 * sum(map(len, data.batches.values()))
        assert status["stalled"] is None


def test_a_killed_gateway_comes_back_on_its_port_and_the_run_goes_on(
    alpha: Running, data: Sample
) -> None:
    with alpha.client("killed") as client:
        client.create(data)
        client.upload(data, "books")
        for signum in (signal.SIGKILL, signal.SIGTERM):
            pid = alpha.gateway_pid()
            assert pid is not None
            os.kill(pid, signum)
            wait_for(lambda pid=pid: (read_address(alpha.root) or {}).get("pid") != pid)  # type: ignore[misc]
        found = read_address(alpha.root)
        assert found is not None
        assert found["url"] == alpha.url
        client.upload(data, "reviews")
        client.wait(lambda status: status["state"] == "done")
        assert client.answers() == data.answers


def test_a_stopped_gateway_finishes_what_is_in_hand(alpha: Running, data: Sample) -> None:
    batch = data.batches["books"][0]
    with alpha.client("drained") as client, alpha.client("drained") as listener:
        client.create(data)
        pid = alpha.gateway_pid()
        assert pid is not None
        heard: list[str] = []
        listening = threading.Event()

        def listen() -> None:
            with listener.http.stream("GET", f"{listener.path}/events") as answer:
                for line in answer.iter_lines():
                    heard.append(line)
                    listening.set()

        def slowly() -> Iterator[bytes]:
            """A batch that is half sent when the signal comes."""
            yield batch[:100]
            os.kill(pid, signal.SIGTERM)
            yield batch[100:]

        thread = threading.Thread(target=listen)
        thread.start()
        assert listening.wait(60)
        path = f"{client.path}/sources/books/batches/0"
        assert client.http.put(path, content=slowly()).status_code == 200
        thread.join(60)
        assert not thread.is_alive(), "a stream in which nothing happens kept the gateway alive"
        assert "event: end" not in heard
        wait_for(lambda: (read_address(alpha.root) or {}).get("pid") != pid)
        client.wait(lambda status: status["sources"]["books"]["batches"] == 1)


def test_a_gateway_on_another_host_serves_the_same_clients(
    alpha: Running, data: Sample, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_bytes(load_secret(alpha.root))
    config = replace(
        CONFIG,
        host="beta",
        homes={0: alpha.url},
        gateways={"alpha": alpha.url, "gamma": "http://127.0.0.1:9"},
    )
    env = {"BOOKSAN_QUEUES": f"spool:{alpha.root}"}
    with (
        running(tmp_path, config, env, stages=()) as beta,
        beta.client("far") as client,
        beta.client("far", "not the right secret") as other,
    ):
        assert client.run(data)["failed"] is None
        assert client.answers() == data.answers
        status = client.get(stages="true").json()
        assert all(stage["done"] for stage in status["stages"].values())
        assert client.get("/events").text.count("event: end") == 1
        assert error_of(other.get()) == (403, "wrong_secret")
        listed = client.http.get("/v1/clients", headers=OPERATOR).json()
        assert listed["missing"] == ["gamma"]
        assert {"far": "alpha"}.items() <= {c["id"]: c["host"] for c in listed["clients"]}.items()
        assert client.http.post(f"{client.path}/acknowledge").json() == {"how": "done"}
        assert error_of(client.get()) == (410, "gone")
        assert error_of(client.put("books", 0, b"")) == (410, "gone")


class Recorder:
    """Stands at a gateway's address, passes all bytes on, and keeps what came."""

    def __init__(self, target: str) -> None:
        address = urlsplit(target)
        assert address.hostname
        assert address.port
        self._target = (address.hostname, address.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.heard: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            threading.Thread(target=self._pass, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._pass, args=(far, near, False), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, keep: bool) -> None:
        with source, target, suppress(OSError):
            while data := source.recv(1 << 20):
                if keep:
                    self.heard.append(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()


def replay(alpha: Running, request: bytes) -> tuple[int, str]:
    address = urlsplit(alpha.url)
    assert address.hostname
    assert address.port
    with socket.create_connection((address.hostname, address.port), 60) as connection:
        connection.sendall(request)
        answer = b""
        while not answer.endswith(b"}}"):
            answer += connection.recv(1 << 20)
        head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]["code"]


def test_who_listens_between_gateways_gets_nothing_to_use(
    alpha: Running, data: Sample, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_bytes(load_secret(alpha.root))
    with closing(Recorder(alpha.url)) as recorder:
        config = replace(
            CONFIG, host="beta", homes={0: recorder.url}, gateways={"alpha": recorder.url}
        )
        env = {"BOOKSAN_QUEUES": f"spool:{alpha.root}"}
        with running(tmp_path, config, env, stages=()) as beta, beta.client("heard") as client:
            assert client.create(data).status_code == 201
            assert client.get(stages="true").status_code == 200
            listed = client.http.get("/v1/clients", headers=OPERATOR)
            assert "heard" in {each["id"] for each in listed.json()["clients"]}
    secret = client.http.headers["Booksan-Secret"].encode()
    requests = [one for one in recorder.heard if b"Booksan-Cluster: " in one]
    assert len(requests) >= 4
    for request in requests:
        assert secret not in request
        assert OPERATOR["Authorization"].encode() not in request
        assert replay(alpha, request) == (401, "stale_word")
        if b"?stages=true" in request:
            other = request.replace(b"?stages=true", b"?stages=false", 1)
            assert replay(alpha, other) == (403, "wrong_cluster")
    with alpha.client("heard") as mine:
        assert mine.http.delete(mine.path).json() == {"how": "cancelled"}


def certificate(place: Path) -> tuple[Path, Path]:
    """One that is its own authority, for 127.0.0.1."""
    found = place / "certificate.pem", place / "key.pem"
    subprocess.run(
        [
            *[
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-days",
                "2",
            ],
            *["-subj", "/CN=booksan", "-addext", "subjectAltName=IP:127.0.0.1"],
            *("-out", str(found[0]), "-keyout", str(found[1])),
        ],
        check=True,
        capture_output=True,
    )
    return found


def test_gateways_speak_tls_to_clients_and_to_each_other(
    data: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = certificate(tmp_path)
    env = {"BOOKSAN_TLS_CERT": str(cert), "BOOKSAN_TLS_KEY": str(key), "BOOKSAN_TLS_CA": str(cert)}
    context = ssl.create_default_context(cafile=str(cert))
    one, two = tmp_path / "alpha", tmp_path / "beta"
    two.mkdir()
    with running(one, env=env, stages=("results",)) as alpha:
        assert alpha.url.startswith("https://")
        (two / "secret").write_bytes(load_secret(one))
        config = replace(CONFIG, host="beta", homes={0: alpha.url}, gateways={"alpha": alpha.url})
        more = env | {"BOOKSAN_QUEUES": f"spool:{one}"}
        with running(two, config, more, stages=()) as beta, beta.client("sealed") as client:
            secret = client.http.headers["Booksan-Secret"]
            client.http = httpx.Client(
                base_url=beta.url, verify=context, headers={"Booksan-Secret": secret}
            )
            assert client.create(data).status_code == 201
            assert client.status()["state"] == "uploading"
            monkeypatch.setenv("BOOKSAN_TLS_CA", str(cert))
            with closing(Wire()) as wire:
                reply = wire.send(beta.url, WireRequest("GET", "/v1/health"))
            assert reply.status in (200, 503)
            with pytest.raises(httpx.ConnectError):
                httpx.get(f"{beta.url}/v1/health", trust_env=False)
            with pytest.raises(httpx.HTTPError):
                httpx.get(beta.url.replace("https", "http"), trust_env=False)


def test_one_more_home_leaves_the_clients_that_are_there_where_they_are(
    data: Sample, tmp_path: Path
) -> None:
    name = next(f"c{n}" for n in range(100) if shard_of(f"c{n}", 2) == 1)
    root, far = tmp_path / "alpha", tmp_path / "beta"
    far.mkdir()
    with running(root, stages=("results",)) as alpha, alpha.client(name) as client:
        ticket = client.create(data).json()["ticket"]
    (root / "gateway-address.json").unlink()
    more = replace(CONFIG, shards=dict(CONFIG.shards) | {"results": 2}, homes={0: "", 1: ""})
    with running(root, more, stages=("results",)) as alpha:
        (far / "secret").write_bytes(load_secret(root))
        away = {"homes": dict.fromkeys(more.homes, alpha.url), "gateways": {"alpha": alpha.url}}
        beyond = replace(more, host="beta", **away)
        env = {"BOOKSAN_QUEUES": f"spool:{root}"}
        with running(far, beyond, env, stages=()) as beta:
            for gateway in (alpha, beta):
                with gateway.client(name) as client:
                    assert client.status()["ticket"] == ticket
                    again = client.create(data)
                    assert (again.status_code, again.json()["ticket"]) == (200, ticket)
                    assert client.put("books", 0, data.batches["books"][0]).status_code == 200
    assert not list(root.glob(f"clients/{name}/results-1.db"))
