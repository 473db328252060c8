"""What a client's run is pinned to: data set, parameters, columns, shard numbers, expiry.

A spec never changes once the client is created. Every message carries it, so that any shard can
start work for a client from any message, and its digest goes into the digest of every message.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from booksan.errors import MessageError, UsageError
from booksan.shards import shard_of
from booksan_common.names import CLIENT_ID
from booksan_common.params import ParamValue

#: Stages that have one result per client take its messages on the shard its id hashes to; this
#: one also decides about the client and is called its home.
HOME = "results"
#: Specs that a process keeps: of twice as many clients as a host serves at once by default.
KEPT_SPECS = 128


def check_client_id(client: str) -> str:
    """A client's id becomes a directory's name, so nothing else may get through."""
    if not CLIENT_ID.fullmatch(client):
        raise UsageError(
            f"client id {client!r} is not usable: up to 64 lower-case letters, digits and hyphens"
        )
    return client


def owner_of(client: str, secret: str) -> str:
    """What a spec tells of the client's secret: enough to recognise it, too little to use it."""
    return hashlib.sha256(f"{client}\0{secret}".encode()).hexdigest()


@dataclass(frozen=True)
class Spec:
    client: str
    dataset: str
    version: int
    params: Mapping[str, ParamValue]
    columns: Mapping[str, tuple[str, ...]]
    shards: Mapping[str, int]
    #: Wall-clock seconds; past this moment every message of the run is dropped.
    expires: int
    #: Whose run it is: `owner_of` the client's secret; empty for nobody's.
    owner: str = ""
    #: Seconds without a batch after which an unfinished upload is given up; 0 for never.
    idle: int = 0
    #: How often the run was begun anew, because what the server had of it was lost. Everything of
    #: an earlier generation is late.
    generation: int = 0

    def as_dict(self) -> dict[str, Any]:
        # Without the first generation, as it was written before there were any.
        later = {"generation": self.generation} if self.generation else {}
        return later | {
            "client": self.client,
            "dataset": self.dataset,
            "version": self.version,
            "params": dict(self.params),
            "columns": {name: list(columns) for name, columns in self.columns.items()},
            "shards": dict(self.shards),
            "expires": self.expires,
            "owner": self.owner,
            "idle": self.idle,
        }

    @cached_property
    def json(self) -> str:
        """The canonical text: equal specs have equal texts."""
        return json.dumps(self.as_dict(), sort_keys=True, separators=(",", ":"))

    @cached_property
    def digest(self) -> str:
        return hashlib.blake2b(self.json.encode(), digest_size=16).hexdigest()

    def shard_for_client(self, stage: str) -> int:
        return shard_of(self.client, self.shards[stage])

    @property
    def home(self) -> int:
        return self.shard_for_client(HOME)


@lru_cache(maxsize=KEPT_SPECS)
def spec_from_json(text: str) -> Spec:
    """The same object for the same text, since every message of a client brings it along."""
    try:
        fields = json.loads(text)
        spec = Spec(
            client=check_client_id(fields["client"]),
            dataset=str(fields["dataset"]),
            version=int(fields["version"]),
            params=dict(fields["params"]),
            columns={name: tuple(columns) for name, columns in fields["columns"].items()},
            shards={stage: int(count) for stage, count in fields["shards"].items()},
            expires=int(fields["expires"]),
            owner=str(fields["owner"]),
            idle=int(fields["idle"]),
            generation=int(fields.get("generation", 0)),
        )
        if any(count < 1 for count in spec.shards.values()):
            raise ValueError("a stage without shards")
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        RecursionError,
        UsageError,
    ) as error:
        raise MessageError(f"not a client's spec: {error!r}") from error
    return spec
