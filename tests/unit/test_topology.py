"""The files in hosts/: what is accepted, and what the error says."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from booksan.datasets import datasets
from booksan.errors import UsageError
from booksan.shards import ShardId
from booksan.topology.model import Address, QueuesKind, Topology, name_of_picks, pick_shards
from booksan.topology.parse import (
    find_topology,
    known_topologies,
    load_topology,
    parse_address,
    parse_topology,
)

HOSTS = Path(__file__).parents[2] / "hosts"

STAGES = [stage.name for stage in datasets()["books"].stages]


def host(name: str, number: int, stages: dict[str, list[int]], extra: str = "") -> str:
    lines = "\n".join(f"{stage} = {shards}" for stage, shards in stages.items())
    return f"""
[hosts.{name}]
id = {number}
address = "127.0.0.1:{7400 + number}"
gateway = "127.0.0.1:{7300 + number}"
{extra}
[hosts.{name}.stages]
{lines}
"""


ALL = {stage: [0] for stage in STAGES}
TOP = 'name = "t"\ndatasets = ["books"]\n'
GOOD = TOP + host("alpha", 1, ALL)


def parse(text: str) -> Topology:
    return parse_topology(text, "t.toml", datasets())


def broken(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse(text)
    message = str(caught.value)
    assert message.startswith("t.toml"), "every error names the file"
    return message


def test_a_gateway_may_speak_tls() -> None:
    plain = parse(GOOD)
    name = next(iter(plain.hosts))
    address = str(plain.hosts[name].gateway)
    sealed = parse(GOOD.replace(f'"{address}"', f'"https://{address}"'))
    assert sealed.hosts[name].gateway == plain.hosts[name].gateway
    assert (plain.hosts[name].url, sealed.hosts[name].url) == (
        f"http://{address}",
        f"https://{address}",
    )


def test_the_topologies_that_come_along_serve_every_stage() -> None:
    assert {"single", "three"} <= set(known_topologies())
    for name in known_topologies():
        topology = load_topology(name)
        assert topology.name == name
        for dataset in topology.datasets:
            assert {stage.name for stage in datasets()[dataset].stages} <= set(topology.shards)


def test_the_homes_of_three_are_on_different_hosts() -> None:
    three = load_topology("three")
    assert three.queues.kind is QueuesKind.RABBITMQ
    assert len(set(three.homes(frozenset()).values())) == 2
    sentiment = {three.owners[ShardId("q5-sentiment", shard)] for shard in (0, 1)}
    assert len(sentiment) == 2


def test_a_host_sees_its_own_homes_as_its_own_and_the_others_by_url() -> None:
    three = load_topology("three")
    alpha = three.hosts["alpha"]
    assert three.homes(frozenset(alpha.shards)) == {0: "", 1: "http://127.0.0.1:7302"}
    assert three.other_gateways("alpha") == {
        "beta": "http://127.0.0.1:7302",
        "gamma": "http://127.0.0.1:7303",
    }


def test_a_topology_is_found_by_name_and_by_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    assert load_topology(str(path)).name == "t"
    assert find_topology("three").name == "three.toml"
    with pytest.raises(UsageError, match="no topology is named 'thre'; did you mean 'three'"):
        load_topology("thre")
    with pytest.raises(UsageError, match=r"nothing\.toml cannot be read: No such file"):
        load_topology(str(tmp_path / "nothing.toml"))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"mine\.toml is not TOML"):
        load_topology(str(path))


def test_without_datasets_it_must_serve_all_that_there_are() -> None:
    assert parse(GOOD).datasets == ("books",)
    whole = GOOD.replace('datasets = ["books"]\n', "")
    assert parse(whole).datasets == tuple(datasets())
    with pytest.raises(UsageError, match=r"no host runs q1-first, .*or take its data set out of"):
        parse(whole + host("beta", 2, {"q1-filter": [1]}))


def test_a_host_that_is_alone_also_runs_the_stages_that_it_does_not_name() -> None:
    whole = parse(GOOD.replace('datasets = ["books"]\n', ""))
    named = parse(GOOD).shards
    assert {stage: whole.shards[stage] for stage in named} == named
    needed = {stage.name for each in datasets().values() for stage in each.stages}
    assert {stage: whole.shards[stage] for stage in needed - set(named)} == dict.fromkeys(
        needed - set(named), 1
    )


def test_the_queues_are_a_spool_unless_said_otherwise() -> None:
    assert parse(GOOD).queues.kind is QueuesKind.SPOOL
    rabbit = (
        GOOD + '[queues]\nkind = "rabbitmq"\nurl = "amqp://broker:5672/%2f?queue_type=quorum"\n'
    )
    assert parse(rabbit).queues.url == "amqp://broker:5672/%2f?queue_type=quorum"


def test_the_gateways_limits_are_taken_over() -> None:
    limits = parse(GOOD + "[gateway]\nidle = 0\nroom_seconds = 0.5\n").limits
    assert limits == {"idle": 0, "room_seconds": 0.5}


def test_a_gateway_may_listen_elsewhere_than_it_is_reached() -> None:
    plan = parse(TOP + host("alpha", 1, ALL, 'listen = "0.0.0.0:7300"')).hosts["alpha"]
    assert (str(plan.listen), plan.url) == ("0.0.0.0:7300", "http://127.0.0.1:7301")
    assert parse(GOOD).hosts["alpha"].listen == Address("127.0.0.1", 7301)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = \nx = 1", ["is not TOML", "line 1"]),
        (GOOD.replace('name = "t"', ""), ["name: must be text such as 'three'; it is missing"]),
        (GOOD.replace('"t"', '"T t"'), ["name: 'T t' is not a name", "lower-case letters"]),
        (GOOD.replace("datasets", "dataset"), ["dataset: there is no such key", "'datasets'?"]),
        (GOOD.replace('["books"]', '["bokos"]'), ["no data set 'bokos'; did you mean 'books'"]),
        (GOOD.replace('["books"]', "[]"), ["datasets: must name at least one"]),
        (GOOD.replace('["books"]', "1"), ["datasets: must be a list of names that", "not 1"]),
        (TOP, ["hosts: must be a table, [hosts]; it is missing"]),
        (TOP + "[hosts]\n", ["hosts: there is none", "[hosts.alpha]"]),
        (TOP + "hosts = 3\n", ["hosts: must be a table, [hosts], not 3"]),
        (TOP + host("Alpha", 1, ALL), ["hosts.Alpha: 'Alpha' is not a name"]),
        (TOP + host("spool", 1, ALL), ["hosts.spool: this name is kept"]),
        (GOOD.replace("id = 1", "id = 0"), ["hosts.alpha.id: must be a whole number from 1 on"]),
        (GOOD.replace("id = 1", "id = true"), ["hosts.alpha.id", "not True"]),
        (GOOD.replace("id = 1", 'id = "1"'), ["hosts.alpha.id", "not '1'"]),
        (GOOD.replace("id = 1", "ids = 1"), ["hosts.alpha.ids: there is no such key", "'id'?"]),
        (GOOD.replace("127.0.0.1:7401", "127.0.0.1"), ["hosts.alpha.address: must look like"]),
        (GOOD.replace("127.0.0.1:7301", "a b:1"), ["hosts.alpha.gateway: must look like"]),
        (GOOD.replace("127.0.0.1:7301", "a:70000"), ["hosts.alpha.gateway", "above 65535"]),
        (GOOD.replace("127.0.0.1:7301", "a:0"), ["hosts.alpha.gateway: needs a port from 1 on"]),
        (GOOD.replace("gateway = ", "# "), ["hosts.alpha.gateway", "it is missing"]),
        (GOOD.replace("q3-join", "q3-jion"), ["stages.q3-jion", "did you mean 'q3-join'?"]),
        (GOOD.replace("q3-join = [0]", ""), ["no host runs q3-join", "q3-join = [0]"]),
        (GOOD.replace("q3-join = [0]", "q3-join = [0, 0]"), ["names a shard twice"]),
        (GOOD.replace("q3-join = [0]", "q3-join = [-1]"), ["shard numbers from 0 on"]),
        (GOOD.replace("q3-join = [0]", "q3-join = []"), ["shard numbers from 0 on"]),
        (
            GOOD.replace("q3-join = [0]", "q3-join = 2"),
            ["must be a list such as [0, 1]", "not 2"],
        ),
        (GOOD.replace("q3-join = [0]", "q3-join = [true]"), ["must be a list such as [0, 1]"]),
        (GOOD.replace("q3-join = [0]", "q3-join = [1]"), ["q3-join: no host has shard 0"]),
        (GOOD.replace("q3-join = [0]", "q3-join = [0, 2]"), ["no host has shard 1", "there is 2"]),
        (GOOD + '[queues]\nkind = "kafka"\n', ["queues.kind: must be 'spool' or 'rabbitmq'"]),
        (GOOD + '[queues]\nkind = "rabbitmq"\n', ["queues.url", "it is missing"]),
        (GOOD + '[queues]\nurl = "amqp://h/"\n', ["queues.url: a spool has none"]),
        (GOOD + '[queues]\nkind = "rabbitmq"\nurl = "http://h/"\n', ["queues.url: must look like"]),
        (GOOD + "[gateway]\nmax_client = 3\n", ["gateway.max_client: ", "'max_clients'?"]),
        (GOOD + "[gateway]\nmax_clients = 0\n", ["gateway.max_clients: ", "from 1 on, not 0"]),
        (GOOD + "[gateway]\nmax_clients = 1.5\n", ["gateway.max_clients: ", "not 1.5"]),
        (GOOD + "[gateway]\nroom_seconds = -1\n", ["gateway.room_seconds: ", "not -1"]),
        (GOOD + "[gateway]\nroom_seconds = nan\n", ["gateway.room_seconds: ", "not nan"]),
        (GOOD + '[hosts.beta]\nid = 2\naddress = "a:1"\ngateway = "a:1"\n', ["beta.stages"]),
        (GOOD + host("beta", 2, {}), ["hosts.beta.stages: a host needs at least one shard"]),
        (
            GOOD + host("beta", 2, {"q3-join": [0]}),
            ["hosts.beta.stages.q3-join: shard 0 is on alpha already"],
        ),
        (
            GOOD + host("beta", 1, {"q3-join": [1]}),
            ["hosts.beta.id: 1 is taken by hosts.alpha"],
        ),
        (
            GOOD + host("beta", 2, {"q3-join": [1]}).replace(":7402", ":7401"),
            ["hosts.beta.address: 127.0.0.1:7401 is taken by hosts.alpha"],
        ),
        (
            GOOD + host("beta", 2, {"q3-join": [1]}).replace(":7302", ":7301"),
            ["hosts.beta.gateway: 127.0.0.1:7301 is taken by hosts.alpha"],
        ),
        (
            GOOD + host("beta", 2, {"q3-join": [1]}).replace("127.0.0.1", "10.0.0.2"),
            ["queues.kind: a spool is on one machine", "rabbitmq"],
        ),
    ],
)
def test_what_cannot_be_used_is_named_with_what_to_do(text: str, words: list[str]) -> None:
    message = broken(text)
    for word in words:
        assert word in message


def test_credentials_in_the_file_are_refused_and_not_repeated() -> None:
    url = '[queues]\nkind = "rabbitmq"\nurl = "amqp://me:geheim@h:5672/"\n'
    message = broken(GOOD + url)
    assert "BOOKSAN_QUEUES" in message
    assert "geheim" not in message
    assert "geheim" not in broken(GOOD + url.replace("5672", "nonsense"))


@pytest.mark.parametrize("text", ["127.0.0.1:7301", "alpha:1", "[::1]:65535", "a-b.example:80"])
def test_an_address_is_read_and_written_the_same(text: str) -> None:
    assert str(parse_address(text)) == text


@pytest.mark.parametrize("text", ["", ":1", "a:", "a:b", "::1:80", "-a:1", "a:1:2", "a:١", "a:1\n"])
def test_a_malformed_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must look like"):
        parse_address(text)


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=7, max_size=7))
def test_every_shard_has_exactly_one_host_and_the_counts_agree(places: list[list[int]]) -> None:
    """Shard n of a stage is put on the host that the n-th number names."""
    plans: dict[int, dict[str, list[int]]] = {}
    for stage, owners in zip(STAGES, places, strict=True):
        for shard, owner in enumerate(owners):
            plans.setdefault(owner, {}).setdefault(stage, []).append(shard)
    names = ("alpha", "beta", "gamma")
    text = TOP + "".join(host(names[n], n + 1, plan) for n, plan in plans.items())
    topology = parse(text)
    assert topology.shards == {s: len(o) for s, o in zip(STAGES, places, strict=True)}
    for stage, owners in zip(STAGES, places, strict=True):
        for shard, owner in enumerate(owners):
            assert topology.owners[ShardId(stage, shard)] == names[owner]
    assert set(topology.homes(frozenset())) == set(range(topology.shards["results"]))


def test_picks_take_all_shards_of_a_stage_or_one() -> None:
    three = load_topology("three")
    picked = pick_shards(three, "q3-join, q5-sentiment.1,q3-join.0")
    assert [str(shard) for shard in picked] == ["q3-join.0", "q3-join.1", "q5-sentiment.1"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no stage"),
        (" , ", "names no stage"),
        ("q3-jion", "did you mean 'q3-join'?"),
        ("q3-join.2", "three has no shard q3-join.2; q3-join has 0 to 1"),
        ("q3-join.x", "has no stage"),
        ("q3-join.-1", "has no stage"),
    ],
)
def test_a_pick_that_is_not_there_is_named(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        pick_shards(load_topology("three"), text)
    assert words in str(caught.value)


def test_the_same_picks_give_the_same_name_whatever_their_order() -> None:
    assert name_of_picks("q5-sentiment.1, q3-join") == name_of_picks("q3-join,q5-sentiment.1")
    long = name_of_picks(",".join(STAGES))
    assert len(long) <= 48
    assert long != name_of_picks(",".join(STAGES[:-1]))
