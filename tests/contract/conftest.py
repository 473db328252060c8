from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from booksan.transport import Transport, spool_consumer
from tests.support.broker import broker as broker
from tests.support.places import BrokerPlace, Place, SpoolPlace


@pytest.fixture(params=["rabbitmq", "spool"])
def new_place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], Place]]:
    # The spool's rescan is a belt that would hide a lost bell: the contract holds without it.
    monkeypatch.setattr(spool_consumer, "RESCAN_SECONDS", 3600.0)
    numbers = count()
    with ExitStack() as cleanup:
        if request.param == "spool":
            yield lambda: SpoolPlace(tmp_path / f"place-{next(numbers)}", cleanup)
        else:
            node = request.getfixturevalue("broker")
            yield lambda: BrokerPlace(node, cleanup)


@pytest.fixture
def place(new_place: Callable[[], Place]) -> Place:
    return new_place()


@pytest.fixture
def transport(place: Place) -> Transport:
    return place.open()
