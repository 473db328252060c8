"""A running gateway keeps to its own OpenAPI document, whatever it is asked."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import CheckContext
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.routing import Route

from booksan.gateway.access import Access
from booksan.gateway.app import routes
from booksan.gateway.service import Service
from tests.support.data import Sample, sample
from tests.support.gateway_host import CONFIG, Running, running

EXAMPLES = 6
SECRET = {"Booksan-Secret": "the secret of mine!"}
#: Names that exist, so that more than the first check of a path is met.
KNOWN = {"id": "mine", "source": "books", "query": "q1", "name": "books", "n": 0}
#: Last, because nothing of the client is left after them.
ENDINGS = ("POST /v1/clients/{id}/acknowledge", "DELETE /v1/clients/{id}")


@pytest.fixture(scope="module")
def data() -> Sample:
    return sample(5, books=60, reviews=80, dirty=True)


@pytest.fixture(scope="module")
def alpha(tmp_path_factory: pytest.TempPathFactory, data: Sample) -> Iterator[Running]:
    """With a client whose run has failed, so that its events have an end."""
    with running(tmp_path_factory.mktemp("alpha"), stages=("results",)) as found:
        with found.client("mine", SECRET["Booksan-Secret"]) as client:
            assert client.create(data).status_code == 201
            for batch in data.batches["books"][:2]:
                assert client.put("books", 0, batch).status_code == 200
            client.wait(lambda status: status["state"] == "failed")
        yield found
    assert "Traceback" not in found.log()


def no_mistake_of_the_server(
    ctx: CheckContext, response: schemathesis.Response, case: schemathesis.Case[Any]
) -> None:
    assert response.status_code < 500 or response.status_code == 503


def operations(alpha: Running) -> list[Any]:
    schema = schemathesis.openapi.from_url(f"{alpha.url}/v1/openapi.json")
    found: list[Any] = [result.ok() for result in schema.get_all_operations()]  # type: ignore[union-attr]
    return sorted(found, key=lambda operation: operation.label in ENDINGS)


def test_the_document_names_every_path(alpha: Running) -> None:
    with alpha.client("mine") as client:
        paths = client.http.get("/v1/openapi.json").json()["paths"]
    documented = {f"{method.upper()} {path}" for path in paths for method in paths[path]}
    service = Service(alpha.root, CONFIG, Access("", "", (b"",)), (b"",))
    served = {
        f"{method} {route.path}"
        for route in routes(service).routes
        if isinstance(route, Route) and route.path.startswith("/v1/")
        for method in route.methods or ()
        if method != "HEAD"
    }
    asyncio.run(service.close())
    assert documented == served


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("caller", ["stranger", "owner"])
def test_answers_are_as_the_document_says(
    alpha: Running, caller: str, mode: GenerationMode
) -> None:
    for operation in operations(alpha):
        ask(alpha, operation, mode, SECRET if caller == "owner" else {})


def ask(alpha: Running, operation: Any, mode: GenerationMode, headers: dict[str, str]) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), known=st.booleans())
    def try_it(case: schemathesis.Case[Any], known: bool) -> None:
        if known:
            for name in case.path_parameters or ():
                case.path_parameters[name] = KNOWN[name]
        checks = [
            no_mistake_of_the_server,
            status_code_conformance,
            content_type_conformance,
            response_headers_conformance,
            response_schema_conformance,
        ]
        if mode is GenerationMode.NEGATIVE and not known:
            checks.append(negative_data_rejection)
        case.call_and_validate(base_url=alpha.url, headers=headers, checks=checks, timeout=60)

    try:
        try_it()
    except Unsatisfiable:
        # Nothing goes in, so nothing can be wrong with it.
        assert mode is GenerationMode.NEGATIVE
        assert not operation.path_parameters
