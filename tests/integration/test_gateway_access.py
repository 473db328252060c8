"""Nobody gets at what is not theirs, and no path leads anywhere it should not."""

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest

from booksan.gateway.access import (
    CHALLENGE_HEADER,
    CLUSTER_HEADER,
    Call,
    CallSigner,
    Vouched,
    digest_of_body,
)
from booksan.tickets import load_secret
from tests.support.data import Sample, sample
from tests.support.gateway_host import OPERATOR, HttpClient, Running, error_of, running

TOKEN = "the-gateways-token"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def alpha(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("alpha")
    with running(root, env={"BOOKSAN_TOKEN": TOKEN}, stages=("results",)) as found:
        yield found
    assert found.log() == "", "what strangers try is not worth a line each"


@pytest.fixture(scope="module")
def data() -> Sample:
    return sample(5, books=60, reviews=80, dirty=True)


@pytest.fixture(scope="module")
def client(alpha: Running, data: Sample) -> Iterator[HttpClient]:
    """A client that is there, with all its credentials."""
    with alpha.client("mine") as found:
        found.http.headers.update(BEARER)
        assert found.create(data).status_code == 201
        yield found


@pytest.fixture
def stranger(alpha: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=alpha.url, trust_env=False, timeout=60) as found:
        yield found


def everything(name: str) -> list[tuple[str, str, Any]]:
    path = f"/v1/clients/{name}"
    return [
        ("POST", "/v1/clients", {"id": name, "dataset": "books", "columns": {}}),
        ("GET", path, None),
        ("GET", f"{path}?stages=true", None),
        ("GET", f"{path}/events", None),
        ("GET", f"{path}/results/q1", None),
        ("GET", f"{path}/rejected", None),
        ("POST", f"{path}/acknowledge", None),
        ("DELETE", path, None),
        ("PUT", f"{path}/sources/books/batches/0", None),
        ("POST", f"{path}/sources/books/end", {"batches": 1}),
    ]


def test_only_health_and_document_are_open_to_strangers(stranger: httpx.Client) -> None:
    assert stranger.get("/v1/health").json()["status"] == "ok"
    assert stranger.get("/v1/openapi.json").json()["openapi"].startswith("3.")
    for method, path, body in [
        ("GET", "/v1/datasets", None),
        ("GET", "/v1/datasets/books", None),
        ("GET", "/v1/clients", None),
        *everything("mine"),
    ]:
        assert error_of(stranger.request(method, path, json=body)) == (401, "no_token"), path
        for wrong in ("x", TOKEN[:-1], TOKEN + "x"):
            headers = {"Authorization": f"Bearer {wrong}"}
            answer = stranger.request(method, path, json=body, headers=headers)
            assert error_of(answer) == (403, "wrong_token"), path
        basic = stranger.request(method, path, json=body, headers={"Authorization": "Basic eDp5"})
        assert error_of(basic) == (401, "no_token"), path


def test_the_token_opens_nothing_of_a_client(stranger: httpx.Client, client: HttpClient) -> None:
    assert stranger.get("/v1/datasets", headers=BEARER).json()["datasets"][0]["name"] == "books"
    for method, path, body in everything("mine"):
        missing = stranger.request(method, path, json=body, headers=BEARER)
        assert error_of(missing) == (401, "no_secret"), path
    for method, path, body in everything("mine")[1:]:
        for wrong in ("x", "a" * 300, "another client's secret"):
            headers = BEARER | {"Booksan-Secret": wrong}
            answer = stranger.request(method, path, json=body, headers=headers)
            assert error_of(answer) == (403, "wrong_secret"), path
    assert client.status()["sources"]["books"]["batches"] == 0


def test_another_clients_ticket_and_permit_are_worth_nothing(
    alpha: Running, data: Sample, client: HttpClient
) -> None:
    with alpha.client("other") as other:
        other.http.headers.update(BEARER)
        theirs = other.create(data).json()
        mine = client.status()
        ticket, permit = theirs["ticket"], theirs["permits"]["books"]
        batch = data.batches["books"][0]

        def put(ticket: str, permit: str) -> tuple[int, str]:
            headers = {"Booksan-Ticket": ticket, "Booksan-Permit": permit}
            return error_of(client.put("books", 0, batch, headers))

        assert put(ticket, permit) == (403, "wrong_ticket")
        assert put(mine["ticket"], permit) == (409, "not_yet")
        assert put(mine["ticket"], "x") == (409, "not_yet")
        for wrong in ("", ".", "x.y", mine["ticket"][:-1], "A" + mine["ticket"][1:], "é.é"):
            refused = client.http.put(
                f"{client.path}/sources/books/batches/0",
                content=batch,
                headers={b"Booksan-Ticket": wrong.encode()},
            )
            assert error_of(refused) == (403, "wrong_ticket"), wrong
            answer = client.http.get(client.path, headers={b"Booksan-Ticket": wrong.encode()})
            assert error_of(answer) == (403, "wrong_ticket"), wrong


def test_the_operator_sees_and_cancels_but_does_not_upload(
    alpha: Running, data: Sample, stranger: httpx.Client
) -> None:
    with alpha.client("watched") as client:
        client.http.headers.update(BEARER)
        client.create(data)
        assert error_of(client.http.get("/v1/clients")) == (403, "not_operator")
        listed = stranger.get("/v1/clients", headers=OPERATOR).json()
        found = next(each for each in listed["clients"] if each["id"] == "watched")
        assert (found["dataset"], found["state"], found["host"]) == ("books", "uploading", "alpha")
        assert listed["missing"] == []
        for path in ("", "/results/q1", "/rejected"):
            assert stranger.get(client.path + path, headers=OPERATOR).status_code == 200
        for method, path in (
            ("PUT", "/sources/books/batches/0"),
            ("POST", "/acknowledge"),
        ):
            answer = stranger.request(method, client.path + path, headers=OPERATOR)
            assert error_of(answer) == (401, "no_secret")
        answer = stranger.delete(client.path, headers=OPERATOR)
        assert answer.json() == {"how": "cancelled"}


def test_only_gateways_of_the_cluster_ask_inside(
    alpha: Running, client: HttpClient, stranger: httpx.Client
) -> None:
    word = CallSigner((load_secret(alpha.root),))
    place = urlsplit(alpha.url).netloc
    for path in ("/internal/v1/clients", "/internal/v1/progress/mine"):
        assert error_of(stranger.get(path)) == (401, "no_token")
        assert error_of(stranger.get(path, headers=OPERATOR)) == (403, "not_gateway")
        call = Call("GET", path, place)
        stale = stranger.get(path, headers={CLUSTER_HEADER: word.sign(call, Vouched(), "")})
        assert error_of(stale) == (401, "stale_word")
        signed = word.sign(call, Vouched(), stale.headers[CHALLENGE_HEADER])
        for wrong in (
            "",
            "x",
            signed[:-1],
            chr(ord(signed[0]) ^ 1) + signed[1:],
            signed.replace(",0,", ",1,"),
        ):
            answer = stranger.get(path, headers={CLUSTER_HEADER: wrong})
            assert error_of(answer) == (403, "wrong_cluster")
        assert stranger.get(path, headers={CLUSTER_HEADER: signed}).status_code == 200
        again = stranger.get(path, headers={CLUSTER_HEADER: signed})
        assert error_of(again) == (401, "stale_word")


def test_a_word_is_good_for_its_body_alone(
    alpha: Running, client: HttpClient, stranger: httpx.Client
) -> None:
    word = CallSigner((load_secret(alpha.root),))
    call = Call("POST", "/v1/clients", urlsplit(alpha.url).netloc)
    signed, other = (json.dumps({"id": name}).encode() for name in ("signed", "other"))
    vouched = Vouched(owner="f" * 64, body=digest_of_body(signed))

    def send(body: bytes, challenge: str) -> httpx.Response:
        headers = {CLUSTER_HEADER: word.sign(call, vouched, challenge)}
        return stranger.post("/v1/clients", content=body, headers=headers)

    challenge = send(signed, "").headers[CHALLENGE_HEADER]
    assert error_of(send(other, challenge)) == (403, "wrong_cluster")
    # What it was signed for gets as far as being read.
    assert send(signed, challenge).status_code in (400, 422)


TRICKS = [
    "/v1/clients/..",
    "/v1/clients/%2e%2e",
    "/v1/clients/..%2f..%2fsecret",
    "/v1/clients/mine%00",
    "/v1/clients/mine%0a",
    "/v1/clients/MINE",
    "/v1/clients/-mine",
    "/v1/clients/" + "a" * 65,
    "/v1/clients/" + "a" * 50_000,
    "/v1/clients/mine'--",
    "/v1/clients/%F0%9F%93%9A",
    "/v1/clients/%ff%fe",
    "/v1/clients//results/q1",
    "/v1/clients/mine/",
    "/v1/clients/mine/results/..%2fmeta",
    "/v1/clients/mine/results/q1%22%20UNION%20SELECT%201",
    "/v1/clients/mine/results/meta",
    "/v1/clients/mine/results/sqlite_master",
    "/v1/clients/mine/results/q1?offset=-1",
    "/v1/clients/mine/results/q1?offset=" + "9" * 5000,
    "/v1/clients/mine/results/q1?offset=1e3",
    "/v1/clients/mine/results/q1?limit=0",
    "/v1/clients/mine/results/q1?limit=99999999",
    "/v1/clients/mine/results/q1?limit=%D9%A3",
    "/v1/clients/mine/results/q1?format=exe",
    "/v1/clients/mine/results/q1?format=csv&format=json",
    "/v1/clients/mine/rejected?source=%27%3B",
    "/v1/clients/mine?wait=inf",
    "/v1/clients/mine?wait=nan",
    "/v1/clients/mine?wait=-1",
    "/v1/clients/mine?stages=maybe",
    "/v1/clients/mine?unknown=1",
    "/v1/datasets/..%2f",
    "/v1/datasets/%00",
    "/internal/v1/progress/..%2f..",
]

NUMBERS = ["-1", "01", "1e3", "0x1", "1000000001", "9" * 5000, "%D9%A3", "1%00", "1.0", "a"]


@pytest.mark.parametrize("path", TRICKS, ids=lambda path: path[:60])
def test_no_path_leads_where_it_should_not(client: HttpClient, path: str) -> None:
    status, body = raw_get(client, path)
    assert status in (400, 403, 404, 422)
    assert json.loads(body)["error"]["message"]


def test_batch_numbers_are_plain_numbers(client: HttpClient) -> None:
    for number in NUMBERS:
        answer = client.http.put(f"{client.path}/sources/books/batches/{number}", content=b"")
        assert error_of(answer) == (422, "unusable"), number
    for source in ("..%2fbooks", "a" * 100, "%00", "bo'oks"):
        answer = client.http.put(f"{client.path}/sources/{source}/batches/0", content=b"")
        assert error_of(answer) in ((404, "unknown_source"), (404, "not_found")), source


def raw_get(client: HttpClient, path: str) -> tuple[int, bytes]:
    """As it is written, because libraries tidy paths up."""
    address = urlsplit(str(client.http.base_url))
    headers = {"Host": "x", "Connection": "close", "Authorization": BEARER["Authorization"]}
    headers |= {"Booksan-Secret": client.http.headers["Booksan-Secret"]}
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    assert address.hostname
    assert address.port
    with socket.create_connection((address.hostname, address.port), 30) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b'{"id": 1}',
        b"[" * 100_000,
        b'{"id": "a", "dataset": "books"}',
        b'{"id": "a", "dataset": "books", "columns": []}',
        b'{"id": "../x", "dataset": "books", "columns": {}}',
        b'{"id": "a\\u0000", "dataset": "books", "columns": {}}',
        b'{"id": "a", "dataset": "books", "columns": {}, "more": 1}',
        b'{"id": "a", "dataset": "books", "columns": {"books": 1, "reviews": 1}}',
        b"\xff\xfe",
    ],
)
def test_malformed_creations_are_refused(client: HttpClient, body: bytes) -> None:
    assert error_of(client.http.post("/v1/clients", content=body)) == (400, "malformed")


@pytest.mark.parametrize(
    "changes",
    [
        {"params": {"q9": 1}},
        {"params": {"q4.top": "many"}},
        {"params": {"q4.top": -1}},
        {"params": {"q4.top": True}},
        {"params": {"q4.top": None}},
        {"params": {"q4.top": 2.5}},
        {"params": {"q5.percentile": 101}},
        {"params": {"q1.word": "\u0000"}},
        {"params": {"q1.word": "\ud800"}},
        {"params": {"q1.word": "x" * 100_000}},
        {"columns": {}},
        {"columns": {"books": "", "reviews": ""}},
        {"columns": {"books": '"unclosed', "reviews": "a"}},
        {"columns": {"books": ["Title"], "reviews": ["Title"]}},
        {"columns": {"books": ["\ud800"], "reviews": ["Title"]}},
        {"columns": {"books": ["a"], "reviews": ["b"], "more": ["c"]}},
    ],
)
def test_unusable_values_are_refused(
    client: HttpClient, data: Sample, changes: dict[str, Any]
) -> None:
    body = {"id": "new", "dataset": "books", "params": {}, "columns": data.columns} | changes
    answer = client.http.post("/v1/clients", content=json.dumps(body).encode())
    assert error_of(answer) == (422, "unusable")
    assert error_of(client.http.get("/v1/clients/new")) == (404, "unknown_client")


def test_a_column_twice_and_an_unknown_data_set_are_refused(
    client: HttpClient, data: Sample
) -> None:
    twice = data.columns | {"books": (*data.columns["books"], "Title")}
    assert error_of(client.create(data, id="new", columns=twice)) == (422, "unusable")
    assert error_of(client.create(data, id="new", dataset="films")) == (404, "unknown_dataset")


GUARDED = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}


@pytest.fixture(scope="module")
def open_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Without a token, as on everybody's own machine."""
    env = {"BOOKSAN_HOSTS": "books.example.org"}
    with running(tmp_path_factory.mktemp("open"), env=env, stages=("results",)) as found:
        yield found.url


def ask(url: str, **headers: str) -> httpx.Response:
    answer = httpx.get(f"{url}/v1/datasets", headers=headers, trust_env=False, timeout=60)
    assert {name: answer.headers.get(name) for name in GUARDED} == GUARDED
    return answer


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:80",
        "127.0.0.1",
        "[::1]:7300",
        "10.0.0.7",
        "alpha",
        "books.example.org",
    ],
)
def test_a_gateway_is_called_by_its_names_and_by_addresses(open_gateway: str, host: str) -> None:
    assert ask(open_gateway, host=host).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "x@evil", "[", ""]
)
def test_a_name_of_somebody_else_is_refused(open_gateway: str, host: str) -> None:
    """Which a page may let point to this machine."""
    assert error_of(ask(open_gateway, host=host)) == (403, "wrong_host")


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://localhost:1", "http://127.0.0.1:9999", "x", ""],
)
def test_pages_of_other_origins_are_refused(open_gateway: str, alpha: Running, origin: str) -> None:
    assert error_of(ask(open_gateway, origin=origin)) == (403, "wrong_origin")
    assert error_of(ask(alpha.url, origin=origin, **BEARER)) == (403, "wrong_origin")


def test_pages_of_the_gateways_own_origin_are_served(open_gateway: str) -> None:
    assert ask(open_gateway, origin=open_gateway).status_code == 200
    assert ask(open_gateway, origin="https://books.example.org").status_code == 200


def test_with_a_token_a_proxy_may_use_any_name(alpha: Running) -> None:
    assert ask(alpha.url, host="books.behind.a.proxy", **BEARER).status_code == 200


def test_credentials_come_by_their_headers_alone(alpha: Running, client: HttpClient) -> None:
    secret = client.http.headers["Booksan-Secret"]
    for query, cookie in (
        (f"?token={TOKEN}&Booksan-Secret={quote(secret)}", ""),
        ("", f"Authorization=Bearer {TOKEN}; Booksan-Secret={secret}"),
    ):
        answer = httpx.get(
            f"{alpha.url}{client.path}{query}", headers={"Cookie": cookie}, trust_env=False
        )
        assert answer.status_code == (400 if query else 401)
