"""How long the queues of a cluster are."""

from booksan.cluster import broker
from booksan.cluster.credentials import with_prefix
from booksan.cluster.record import ClusterRecord
from booksan.errors import BooksanError
from booksan.transport import open_transport


def cluster_queues(record: ClusterRecord) -> str | None:
    """The address of its queues, with the password if the broker is its own."""
    if record.broker is None:
        return record.queues or None
    url = broker.broker_status(record.broker).get("url")
    return with_prefix(str(url), record.name) if url else None


def queue_lengths(record: ClusterRecord, shards: list[str]) -> dict[str, int]:
    """Messages that wait for each shard; nothing if the queues cannot be asked now."""
    address = cluster_queues(record)
    if address is None or "***" in address:
        return {}
    try:
        with open_transport(address) as transport:
            return {shard: transport.depth(shard).messages for shard in shards}
    except BooksanError:
        # The status is asked for above all when something is broken: it shows the rest.
        return {}
