"""How long the queues of a cluster are.

`python -m booksan.cluster.depths SHARD...` asks for those of the host that it runs on, as JSON: so
does the status of a cluster in containers, where nobody else reaches the broker.
"""

import json
import os
import sys
from collections.abc import Sequence

from booksan.cluster import broker
from booksan.cluster.credentials import with_prefix
from booksan.cluster.paths import ClusterRecord
from booksan.errors import BooksanError
from booksan.transport import QUEUES_VARIABLE, open_transport


def cluster_queues(record: ClusterRecord) -> str | None:
    """The address of its queues, with the password if the broker is its own."""
    if record.broker is None:
        return record.queues or None
    url = broker.broker_status(record.broker).get("url")
    return with_prefix(str(url), record.name) if url else None


def queue_lengths(record: ClusterRecord, shards: list[str]) -> dict[str, int]:
    """Messages that wait for each shard; nothing if the queues cannot be asked now."""
    return lengths_at(cluster_queues(record), shards)


def lengths_at(address: str | None, shards: Sequence[str]) -> dict[str, int]:
    if address is None or "***" in address:
        return {}
    try:
        with open_transport(address) as transport:
            return {shard: transport.depth(shard).messages for shard in shards}
    except BooksanError:
        # The status is asked for above all when something is broken: it shows the rest.
        return {}


def main(shards: Sequence[str]) -> int:
    sys.stdout.write(json.dumps(lengths_at(os.environ.get(QUEUES_VARIABLE), shards)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
