"""A RabbitMQ node of our own, for tests and for a cluster on one machine."""

from booksan.broker.keeper import read_status
from booksan.broker.node import Broker
from booksan.broker.server import find_server, require_server

__all__ = ["Broker", "find_server", "read_status", "require_server"]
