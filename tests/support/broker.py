"""A broker for tests: one per test process, started when the first test asks for it.

Use it in a conftest with `from tests.support.broker import broker`; all share the same node.
"""

import secrets
from collections.abc import Iterable, Iterator

import pika
import pytest

from booksan.broker import Broker, find_server

_running: list[Broker] = []


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running node. A test that kills it starts it again before it ends."""
    if _running:
        yield _running[0]
        return
    if find_server() is None:
        pytest.skip("there is no rabbitmq-server: run scripts/rabbitmq to install it")
    node = Broker(tmp_path_factory.mktemp("broker"))
    node.start()
    _running.append(node)
    try:
        yield node
    finally:
        _running.remove(node)
        node.stop()


def new_prefix() -> str:
    """Keeps the queues of a test apart from those of others."""
    return f"test-{secrets.token_hex(6)}"


def delete_queues(broker: Broker, names: Iterable[str]) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    try:
        channel = connection.channel()
        for name in names:
            channel.queue_delete(name)
    finally:
        connection.close()


def purge_queues(broker: Broker, names: Iterable[str]) -> None:
    """Takes away what waits in them, and leaves them there."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    try:
        channel = connection.channel()
        for name in names:
            channel.queue_purge(name)
    finally:
        connection.close()
