"""The seam to the queues: what the workers and the gateway know of them."""

from booksan.transport.address import check_address, masked, open_transport, queues_address
from booksan.transport.base import Consumer, Delivery, Depth, Outgoing, Transport
from booksan.transport.spool import Spool

__all__ = [
    "Consumer",
    "Delivery",
    "Depth",
    "Outgoing",
    "Spool",
    "Transport",
    "check_address",
    "masked",
    "open_transport",
    "queues_address",
]
