"""`booksan host`: one host of a topology, in the foreground."""

import json
import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from booksan.cluster.host import HostRequest, host_setup
from booksan.cluster.prepare import HostSetup, host_environment, prepare
from booksan.datasets import dataset_named
from booksan.errors import UsageError
from booksan.gateway.config import read_gateway_config
from booksan.host.config import read_config
from booksan.host.status import EXIT_CANNOT_START, HostState, HostStatus, write_status
from booksan.membership.revive import _why_not
from booksan.spec import Spec
from booksan.state.client import ClientStore, database_path
from booksan.state.database import transaction
from booksan.state.shard import ShardStore
from booksan.tickets import load_keys
from booksan.topology.parse import load_topology
from tests.support.command import Place, wait_until
from tests.support.hosts import command, place_for_hosts, read_json

BOOKS = dataset_named("books")

SPEC = Spec(
    "c1", "books", BOOKS.version, {}, {}, {"q3-join": 1, "results": 1}, int(time.time()) + 3600
)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with place_for_hosts(tmp_path) as found:
        yield found


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's state directory of this process."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("QUEUES", "TOKEN", "TOKEN_FILE", "SECRET", "SECRET_FILE", "SECRET_ALSO"):
        monkeypatch.delenv(f"BOOKSAN_{name}", raising=False)
    return tmp_path / "state" / "booksan"


def setup_of(
    config: str = "single",
    name: str | None = None,
    stages: str | None = None,
    *,
    data_dir: Path | None = None,
    gateway: bool = True,
    listen: str | None = None,
    secret_file: Path | None = None,
    queues_file: Path | None = None,
) -> HostSetup:
    return host_setup(
        HostRequest(config, name, stages, data_dir, gateway, listen, secret_file, queues_file)
    )


def give_client(data_dir: Path, spec: Spec = SPEC, shard: int = 0) -> None:
    """The state of a client at a shard of q3-join."""
    path = database_path(data_dir, spec.client, "q3-join", shard)
    store = ClientStore.begin(path, spec, synchronous="OFF")
    with transaction(store.db):
        store.create("q3-join", shard, [("gateway/books", "books")], time.time())
    store.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# -- the process -----------------------------------------------------------------------------


def test_the_command_becomes_the_supervisor_and_ends_in_order(place: Place) -> None:
    words = ["host", "--stages", "q1-filter,q3-join", "--no-gateway"]
    data_dir = place.state / "booksan/hosts/single/q1-filter-q3-join"
    secrets = {"BOOKSAN_TOKEN": "tok-1234567890", "BOOKSAN_OPERATOR_TOKEN": "opr-1234567890"}
    with place.started(words, env=secrets) as process:
        wait_until(lambda: read_json(data_dir / "host-status.json").get("state") == "running")
        status = read_json(data_dir / "host-status.json")
        assert status["pid"] == process.pid
        assert [worker["name"] for worker in status["workers"]] == ["q1-filter.0", "q3-join.0"]
        assert read_json(data_dir / "host.json")["workers"][0]["stage"] == "q1-filter"
        arguments = " ".join(psutil.Process(process.pid).cmdline())
        process.terminate()
        ended = place.ended(process)
    assert ended.code == 0
    told = arguments + ended.out + ended.err + (data_dir / "host.json").read_text()
    assert not any(token in told for token in secrets.values())


def test_a_host_of_the_same_shards_is_refused_while_the_first_runs(place: Place) -> None:
    words = ["host", "--stages", "q1-filter", "--no-gateway"]
    lock = place.state / "booksan/hosts/single/spool/queues/q1-filter.0/lock"
    with place.started(words) as process:
        wait_until(lock.exists)
        other = command(place, *words, "--data-dir", place.root / "other")
        assert other.code == 2
        assert "q1-filter.0 is run by another host" in other.message
        process.terminate()
        assert place.ended(process).code == 0


def test_a_port_in_use_is_told_before_anything_starts_with_the_option_that_helps(
    place: Place,
) -> None:
    words = ["host", "--stages", "q1-filter,results"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = command(place, *words, "--port", str(port))
    assert done.code == 2
    mine = psutil.Process().name()
    assert f"127.0.0.1:{port}: Address already in use by process {os.getpid()} ({mine})" in (
        done.message
    )
    assert "another port for the gateway with --port" in done.message
    assert not list(place.state.rglob("host.json"))
    # What was refused is no hindrance later.
    with place.started([*words, "--port", str(port)]) as process:
        wait_until(lambda: read_json_of(place, "gateway-address.json").get("url"))
        assert read_json_of(place, "gateway-address.json")["url"].endswith(f":{port}")
        again = command(place, *words)
        assert again.code == 2
        assert f"is in use by another host, process {process.pid}; use that one" in again.message
        process.terminate()
        assert place.ended(process).code == 0


def read_json_of(place: Place, name: str) -> dict[str, Any]:
    return read_json(place.state / "booksan/hosts/single/q1-filter-results" / name)


def test_a_host_says_when_it_is_ready_and_that_is_an_event_where_nobody_sits(
    place: Place,
) -> None:
    words = ["host", "--stages", "q1-filter,results", "--port", "0"]
    with place.started(words) as process:
        wait_until(lambda: read_json_of(place, "host-status.json").get("ready"))
        process.terminate()
        ended = place.ended(process)
    events = [json.loads(line)["event"] for line in ended.err.splitlines()]
    url = read_json_of(place, "gateway-address.json")["url"]
    first = events.index(f"ready at {url}, 2 stages, 3 processes")
    assert events[first + 1] == f"booksan submit DATASET FILES --out DIR --server {url}"
    assert events[-1] == "stopped"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--config", "thre"], "did you mean 'three'?"),
        (["--config", "three"], "has the hosts alpha, beta, gamma; say which one"),
        (["--config", "three", "--name", "alfa"], "no host 'alfa'; did you mean 'alpha'?"),
        (["--stages", "q9"], "no stage 'q9'"),
        (["--stages", "results", "--no-gateway"], "leave out --no-gateway"),
        (["--listen", "nowhere"], "--listen must look like"),
        (["--secret-file", "/nowhere"], "/nowhere (--secret-file) cannot be read"),
        (["--queues-file", "/nowhere"], "/nowhere (--queues-file) cannot be read"),
    ],
)
def test_what_cannot_be_asked_for_is_said_in_one_line(
    state: Path, words: list[str], message: str
) -> None:
    options = dict(zip(words[::2], words[1::2], strict=False))
    with pytest.raises(UsageError) as caught:
        setup_of(
            options.get("--config", "single"),
            options.get("--name"),
            options.get("--stages"),
            gateway="--no-gateway" not in words,
            listen=options.get("--listen"),
            secret_file=Path(options["--secret-file"]) if "--secret-file" in options else None,
            queues_file=Path(options["--queues-file"]) if "--queues-file" in options else None,
        )
    assert message in str(caught.value)


# -- what is prepared ------------------------------------------------------------------------


def test_a_host_of_a_topology_gets_its_shards_and_a_gateway_that_knows_the_others(
    state: Path,
) -> None:
    setup = setup_of("three", "alpha")
    prepare(setup)
    workers = [worker.name for worker in read_config(setup.data_dir).workers]
    assert workers == ["gateway.0", *map(str, load_topology("three").hosts["alpha"].shards)]
    assert {"q3-join.0", "q5-sentiment.0", "results.0"} <= set(workers)
    gateway = read_gateway_config(setup.data_dir)
    assert (gateway.host, gateway.listen, gateway.topology) == ("alpha", "127.0.0.1:7301", "three")
    assert gateway.homes == {0: "", 1: "http://127.0.0.1:7302"}
    assert gateway.gateways == {"beta": "http://127.0.0.1:7302", "gamma": "http://127.0.0.1:7303"}
    assert gateway.shards["q5-sentiment"] == 2
    assert setup.queues == "amqp://127.0.0.1:5672/#three"


@pytest.mark.parametrize(("ended", "code"), [("stopped", None), ("failed", EXIT_CANNOT_START)])
def test_a_host_that_is_killed_as_it_starts_is_revived_however_its_last_life_ended(
    state: Path, ended: str, code: int | None
) -> None:
    setup = setup_of("three", "alpha")
    prepare(setup)
    write_status(setup.data_dir, HostStatus(1, HostState(ended), 0, (), None, code))
    assert _why_not(setup.data_dir) is not None
    # Started again, and killed before its first report.
    prepare(setup)
    assert _why_not(setup.data_dir) is None


def test_picked_shards_keep_the_numbers_of_the_topology(state: Path) -> None:
    setup = setup_of("three", stages="q5-sentiment.1,results.1", listen="127.0.0.1:0")
    prepare(setup)
    gateway = read_gateway_config(setup.data_dir)
    assert setup.name == "q5-sentiment-1-results-1"
    assert gateway.shards["q5-sentiment"] == 2
    assert gateway.homes == {0: "http://127.0.0.1:7301", 1: ""}


def test_hosts_of_one_machine_share_a_secret_and_a_spool_that_others_cannot_read(
    state: Path,
) -> None:
    setups = [setup_of(stages=stage, gateway=False) for stage in ("q1-filter", "q3-join")]
    for setup in setups:
        prepare(setup)
        assert mode(setup.data_dir) == 0o700
        assert mode(setup.data_dir / "secret") == 0o600
    assert len({(setup.data_dir / "secret").read_bytes() for setup in setups}) == 1
    assert {setup.queues for setup in setups} == {f"spool:{state}/hosts/single/spool"}
    assert mode(state / "hosts/single") == 0o700


def test_the_users_own_address_of_the_queues_goes_before_the_topologys(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "queues"
    file.write_text("amqp://me:pw@host/#mine\n")
    assert setup_of(queues_file=file).queues == "amqp://me:pw@host/#mine"
    monkeypatch.setenv("BOOKSAN_QUEUES", "spool:/elsewhere")
    assert setup_of(queues_file=file).queues == "spool:/elsewhere"


def test_secrets_in_files_reach_the_children_and_the_files_names_do_not(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-token\n")
    env = {"BOOKSAN_TOKEN_FILE": str(token), "BOOKSAN_SECRET_FILE": "x", "HOME": "/h"}
    found = host_environment(env, "spool:/q")
    assert found["BOOKSAN_TOKEN"] == "a-token"
    assert found["BOOKSAN_QUEUES"] == "spool:/q"
    assert found["HOME"] == "/h"
    assert found["POLARS_MAX_THREADS"] == found["OMP_NUM_THREADS"] == "1"
    assert not any(name.endswith("_FILE") for name in found)
    with pytest.raises(UsageError, match="both set"):
        host_environment({**env, "BOOKSAN_TOKEN": "b"}, "spool:/q")
    token.write_text("\n")
    with pytest.raises(UsageError, match="must hold a token"):
        host_environment(env, "spool:/q")


def test_hosts_on_several_machines_need_a_secret_from_the_user(state: Path, tmp_path: Path) -> None:
    text = Path("hosts/three.toml").read_text().replace('"127.0.0.1:74', '"10.0.0.1:74')
    config = tmp_path / "far.toml"
    config.write_text(text)
    with pytest.raises(UsageError, match="need the same secret"):
        setup_of(str(config), "alpha")
    secret = tmp_path / "secret"
    secret.write_bytes(b"short")
    with pytest.raises(UsageError, match="is short"):
        setup_of(str(config), "alpha", secret_file=secret)
    secret.write_bytes(b"0123456789abcdef")
    assert setup_of(str(config), "alpha", secret_file=secret).secret == b"0123456789abcdef"


# -- what is refused -------------------------------------------------------------------------


def test_shards_that_unfinished_clients_need_cannot_be_taken_away(state: Path) -> None:
    setup = setup_of(stages="q1-filter", gateway=False)
    prepare(setup)
    give_client(setup.data_dir)
    with pytest.raises(UsageError, match=r"q3-join\.0 for unfinished clients \(c1\)"):
        prepare(setup)
    prepare(setup_of(stages="q1-filter,q3-join", gateway=False, data_dir=setup.data_dir))


def test_clients_that_are_gone_or_expired_need_no_shards(state: Path) -> None:
    setup = setup_of(stages="q1-filter", gateway=False)
    prepare(setup)
    give_client(setup.data_dir)
    store = ShardStore(setup.data_dir, "q3-join", 0, synchronous="OFF")
    store.leave_tombstone("c1", "done", SPEC.expires, [])
    store.close()
    expired = Spec("c2", "books", 1, {}, {}, {"q3-join": 1, "results": 1}, int(time.time()) - 1)
    give_client(setup.data_dir, expired)
    prepare(setup)


def test_a_database_that_cannot_be_read_counts_as_needed(state: Path) -> None:
    setup = setup_of(stages="q1-filter", gateway=False)
    prepare(setup)
    path = database_path(setup.data_dir, "c3", "q3-join", 0)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this is no database, and was one perhaps" * 100)
    with pytest.raises(UsageError, match="c3"):
        prepare(setup)


def test_another_secret_is_refused_while_clients_have_tickets_of_the_old_one(
    state: Path, tmp_path: Path
) -> None:
    setup = setup_of(stages="q3-join", gateway=False)
    prepare(setup)
    secret = tmp_path / "new"
    secret.write_bytes(os.urandom(32))
    other = setup_of(stages="q3-join", gateway=False, secret_file=secret)
    give_client(setup.data_dir)
    with pytest.raises(UsageError, match="signed with another secret"):
        prepare(other)
    database_path(setup.data_dir, "c1", "q3-join", 0).unlink()
    prepare(other)
    assert (setup.data_dir / "secret").read_bytes() == secret.read_bytes()


def test_the_secret_is_changed_in_three_steps_while_clients_are_at_work(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = "the old one of 32 characters ...", "the new one of 32 characters ..."

    def start(secret: str, also: str) -> tuple[bytes, ...]:
        monkeypatch.setenv("BOOKSAN_SECRET", secret)
        monkeypatch.setenv("BOOKSAN_SECRET_ALSO", also)
        setup = setup_of(stages="q3-join", gateway=False)
        prepare(setup)
        assert all(mode(path) == 0o600 for path in setup.data_dir.glob("secret*"))
        return load_keys(setup.data_dir)

    assert start(old, "") == (old.encode(),)
    give_client(state / "hosts/single/q3-join")
    assert start(old, new) == (old.encode(), new.encode())
    assert start(new, old) == (new.encode(), old.encode())
    assert start(new, "") == (new.encode(),)
    with pytest.raises(UsageError, match="BOOKSAN_SECRET_ALSO_FILE"):
        start(old, "")
    env = {"BOOKSAN_SECRET_ALSO": new, "BOOKSAN_SECRET_ALSO_FILE": "x"}
    assert not host_environment(env, "spool:/q").keys() & env.keys()


def test_the_queues_of_unfinished_clients_cannot_be_changed(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOOKSAN_QUEUES", "amqp://me:geheim@host:5672/#x")
    setup = setup_of(stages="q3-join", gateway=False)
    prepare(setup)
    assert "geheim" not in (setup.data_dir / "queues-address").read_text()
    give_client(setup.data_dir)
    monkeypatch.setenv("BOOKSAN_QUEUES", "amqp://you:other@host:5673/#x")
    prepare(setup_of(stages="q3-join", gateway=False))
    monkeypatch.delenv("BOOKSAN_QUEUES")
    elsewhere = setup_of(stages="q3-join", gateway=False)
    with pytest.raises(UsageError, match="start the host with those queues"):
        prepare(elsewhere)
    database_path(setup.data_dir, "c1", "q3-join", 0).unlink()
    prepare(elsewhere)


@pytest.mark.parametrize(
    ("queues", "refused"),
    [
        ("amqp://broker:5672/#x", True),
        ("amqps://guest:guest@10.0.0.1/", True),
        ("amqp://guest:another@broker/", False),
        ("amqp://me:guest@broker/", False),
        ("amqp://localhost/", False),
        ("amqp://guest:guest@127.0.0.1:5672/", False),
        ("amqp://[::1]/", False),
    ],
)
def test_a_broker_on_another_machine_is_not_used_as_guest(
    state: Path, monkeypatch: pytest.MonkeyPatch, queues: str, refused: bool
) -> None:
    monkeypatch.setenv("BOOKSAN_QUEUES", queues)
    setup = setup_of(stages="q3-join", gateway=False)
    if not refused:
        prepare(setup)
        return
    with pytest.raises(UsageError, match=r"guest with the password guest.*BOOKSAN_QUEUES"):
        prepare(setup)
    assert not setup.data_dir.exists()


def test_a_name_that_is_no_directory_of_its_own_is_refused(state: Path) -> None:
    for name in ("../elsewhere", "spool", "A"):
        with pytest.raises(UsageError, match="is not usable"):
            setup_of(stages="q3-join", name=name)


def test_the_directory_of_a_running_host_is_left_alone(place: Place, state: Path) -> None:
    words = ["host", "--stages", "q1-filter", "--no-gateway"]
    with place.started(words) as process:
        data_dir = state / "hosts/single/q1-filter"
        wait_until(lambda: read_json(data_dir / "host-status.json").get("state") == "running")
        with pytest.raises(UsageError, match=f"in use by another host, process {process.pid}"):
            prepare(setup_of(stages="q3-join", gateway=False, data_dir=data_dir))
        workers = [worker.name for worker in read_config(data_dir).workers]
        assert workers == ["q1-filter.0"]
        process.terminate()
        assert place.ended(process).code == 0


def test_a_directory_of_somebody_else_is_left_as_it_is(state: Path, tmp_path: Path) -> None:
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="not empty and not a data directory"):
        prepare(setup_of(data_dir=strange))
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text("{}")
    with pytest.raises(UsageError, match="belongs to a `booksan run`"):
        prepare(setup_of(data_dir=run))
    assert [path.name for path in (*strange.iterdir(), *run.iterdir())] == [
        "thesis.txt",
        "run.json",
    ]
