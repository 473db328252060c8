"""The right to consume a queue, for queues that do not see to it themselves."""

from booksan.errors import QueueBusy
from booksan.transport.rabbitmq_address import BrokerAddress
from booksan.transport.rabbitmq_channel import RESOURCE_LOCKED, Channel, ChannelClosed
from booksan.transport.rabbitmq_link import Link, settle


class ConsumerLock:
    """A queue that belongs to one connection and ends with it.

    Quorum queues (seen with 3.10) accept a second consumer though the first is exclusive.
    """

    def __init__(self, link: Link, address: BrokerAddress, name: str) -> None:
        # No queue of ours has a colon in its name.
        self._lock = f"{name}:consumer"
        self._channel = Channel(link, address)
        try:
            self._channel.ask(
                lambda raw, future: raw.queue_declare(
                    self._lock, exclusive=True, callback=lambda _: settle(future, None)
                )
            )
        except ChannelClosed as error:
            if error.code == RESOURCE_LOCKED:
                raise busy(name, address) from error
            raise

    def release(self) -> None:
        self._channel.ask(
            lambda raw, future: raw.queue_delete(
                self._lock, callback=lambda _: settle(future, None)
            )
        )
        self._channel.close()


def busy(name: str, address: BrokerAddress) -> QueueBusy:
    return QueueBusy(
        f"the queue {name} on {address} has a consumer already: "
        "stop the other process that works on it"
    )
