"""A RabbitMQ node of our own, for tests and for a cluster on one machine."""

from booksan.broker.files import find_server, require_server
from booksan.broker.node import Broker, read_status

__all__ = ["Broker", "find_server", "read_status", "require_server"]
