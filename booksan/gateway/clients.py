"""The beginning and the end of a client's run: what it asks for, checked, and its home told."""

import asyncio
import io
import json
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from booksan.datasets import broken_datasets, datasets
from booksan.errors import UsageError
from booksan.gateway.access import Caller
from booksan.gateway.config import GatewayConfig
from booksan.gateway.errors import Gone, Problem
from booksan.gateway.homes import Homes, Snapshot
from booksan.gateway.uploads import Gateway, Queues
from booksan.spec import Spec
from booksan.stages.graph import Dataset, Param, Source
from booksan_common.backoff import Backoff
from booksan_common.cutter import Header, check_columns, read_header
from booksan_common.decoding import Unfit, decoded
from booksan_common.errors import InputError
from booksan_common.names import CLIENT_ID, plain
from booksan_common.params import ParamValue
from booksan_common.shapes import Creation

# What a client asks for when it begins, checked before anything is done about it.

#: Bytes of columns and parameters, as every message and every ticket carries them.
MAX_SPEC = 48 * 1024

T = TypeVar("T")


@dataclass(frozen=True)
class Wanted:
    client: str
    dataset: Dataset
    params: Mapping[str, ParamValue]
    columns: Mapping[str, tuple[str, ...]]
    #: One more than the last time, if the run is begun anew because the server has lost it.
    generation: int = 0


def served(shards: Mapping[str, int]) -> dict[str, Dataset]:
    """The data sets for which this topology has all stages."""
    return {
        name: dataset
        for name, dataset in datasets().items()
        if all(stage in shards for stage in dataset.stage)
    }


def no_dataset(name: str, known: Collection[str]) -> Problem:
    """One that is broken here is told with its reason; others tell which there are."""
    reason = broken_datasets().get(name)
    if reason is not None and name not in known:
        return Problem(404, "broken_dataset", f"{name} cannot be used at the server: {reason}")
    return Problem(404, "unknown_dataset", f"no such data set; there is: {', '.join(known)}")


def read_shape(kind: type[T], body: bytes) -> T:
    try:
        return decoded(kind, json.loads(body))
    except Unfit as error:
        # A parameter of another type is a wrong value, as one beyond its bounds.
        unusable = error.of_its_type or error.path.startswith("params.")
        text = plain(f"the body: {error}")
        raise _unusable(text) if unusable else _malformed(text) from None
    except (ValueError, RecursionError):
        raise _malformed("the body is not JSON") from None


def read_wanted(body: bytes, known: Mapping[str, Dataset]) -> Wanted:
    found = read_shape(Creation, body)
    if not CLIENT_ID.fullmatch(found.id):
        raise _malformed("an id has up to 64 lower-case letters, digits and hyphens")
    if found.dataset not in known:
        raise no_dataset(found.dataset, known)
    dataset = known[found.dataset]
    params, columns = _params(dataset, found.params), _columns(dataset, found.columns)
    size = len(json.dumps([params, columns]))
    if size > MAX_SPEC:
        raise _unusable(f"parameters and columns have {size} characters; {MAX_SPEC} is the limit")
    return Wanted(found.id, dataset, params, columns, found.generation)


def _params(dataset: Dataset, found: Mapping[str, ParamValue]) -> dict[str, ParamValue]:
    known = {param.name: param for param in dataset.params}
    values = dataset.defaults
    for name, value in found.items():
        if name not in known:
            raise _unusable(f"{dataset.name} has no such parameter; it has: {', '.join(known)}")
        values[name] = _param(known[name], value)
    return values


def _param(param: Param, value: ParamValue) -> ParamValue:
    if isinstance(value, float) and value.is_integer() and isinstance(param.default, int):
        value = int(value)
    try:
        return param.parse(str(value))
    except UsageError as error:
        raise _unusable(str(error)) from None


def _columns(
    dataset: Dataset, found: Mapping[str, tuple[str, ...] | str]
) -> dict[str, tuple[str, ...]]:
    if set(found) != set(dataset.source):
        raise _unusable(f"columns must be given for: {', '.join(dataset.source)}")
    return {source.name: _header(source, found[source.name]) for source in dataset.sources}


def _header(source: Source, found: tuple[str, ...] | str) -> tuple[str, ...]:
    where = f"columns of {source.name}"
    if isinstance(found, str):
        try:
            stream = io.BytesIO(found.encode(errors="surrogatepass"))
            names = read_header(stream, source.delimiter).names
        except InputError as error:
            raise _unusable(f"{where}: {error}") from None
    else:
        names = found
        if not all(_is_text(name) for name in names):
            raise _unusable(f"{where}: a name is not text in UTF-8")
    try:
        check_columns(Header(names, 0), source.needed, Path(where))
    except InputError as error:
        raise _unusable(str(error)) from None
    return names


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _malformed(text: str) -> Problem:
    return Problem(400, "malformed", text)


def _unusable(text: str) -> Problem:
    return Problem(422, "unusable", text)


# The beginning and the end of a client's run.

#: Seconds that a home gets to take a client in, or to let it go.
HOME_SECONDS = 15.0
#: Seconds between two looks at it: the first, the longest, and how they grow.
LOOKS = (0.01, 0.2, 1.5)
#: Threads that publish control messages, so that uploads cannot keep them waiting.
CONTROL_THREADS = 4


class Clients:
    def __init__(self, config: GatewayConfig, homes: Homes, queues: Queues) -> None:
        self._config = config
        self._homes = homes
        self._queues = queues
        self._threads = ThreadPoolExecutor(CONTROL_THREADS, "control")
        self._creating = asyncio.Lock()
        #: Asked for, and not shown by their homes yet.
        self._pending: set[str] = set()

    async def create(self, caller: Caller, wanted: Wanted, shard: int) -> tuple[Snapshot, bool]:
        """The client as its home shows it, and whether it began just now."""
        spec = self._spec(caller, wanted)
        async with self._creating:
            try:
                snapshot = await self._find(spec, shard)
            except Gone as gone:
                caller.check_gone(spec.client, gone)
                raise
            begun = snapshot is None and spec.client not in self._pending
            if begun:
                await self._check_number()
                self._pending.add(spec.client)
        try:
            if begun:
                await self._tell(lambda gateway: gateway.create(spec))
            if snapshot is None:
                snapshot = await self._wait_until_there(spec, shard)
        finally:
            if begun:
                self._pending.discard(spec.client)
        caller.check_owner(snapshot.status.spec)
        _check_same(snapshot.status.spec, spec)
        return snapshot, begun

    async def release(self, snapshot: Snapshot, shard: int, how: str) -> str:
        """Ends the run; how it ended, which may have been decided before."""
        ticket = snapshot.status.ticket
        await self._tell(lambda gateway: gateway.release(ticket, how))
        return await self._wait_until_gone(snapshot.status.spec.client, shard)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _spec(self, caller: Caller, wanted: Wanted) -> Spec:
        return Spec(
            client=wanted.client,
            dataset=wanted.dataset.name,
            version=wanted.dataset.version,
            params=wanted.params,
            columns=wanted.columns,
            shards={stage.name: self._config.shards[stage.name] for stage in wanted.dataset.stages},
            expires=int(self._homes.clock.now()) + self._config.expiry,
            owner=caller.owner(wanted.client),
            idle=self._config.idle,
            generation=wanted.generation,
        )

    async def _tell(self, work: Callable[[Gateway], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: work(self._queues.gateway()))

    async def _find(self, spec: Spec, shard: int) -> Snapshot | None:
        """The client, if it is there in this generation or a later one."""
        try:
            snapshot = await self._homes.snapshot(spec.client, shard)
        except Problem as problem:
            if problem.code == "unknown_client":
                return None
            raise
        there = snapshot.status.spec
        if there.generation >= spec.generation:
            return snapshot
        # Only its owner may begin it anew.
        if there.owner != spec.owner:
            raise Problem(403, "wrong_secret", f"the secret is not the one of {spec.client}")
        return None

    async def _check_number(self) -> None:
        known = await self._homes.unfinished()
        if len(known | self._pending) >= self._config.max_clients:
            raise Problem(
                429,
                "too_many_clients",
                f"{self._config.max_clients} clients are at work already; try again later",
                retry=5,
            )

    async def _wait_until_there(self, spec: Spec, shard: int) -> Snapshot:
        pauses = Backoff(*LOOKS)
        deadline = time.monotonic() + HOME_SECONDS
        while (snapshot := await self._find(spec, shard)) is None:
            if time.monotonic() > deadline:
                raise _slow(spec.client)
            await asyncio.sleep(next(pauses))
        return snapshot

    async def _wait_until_gone(self, client: str, shard: int) -> str:
        pauses = Backoff(*LOOKS)
        deadline = time.monotonic() + HOME_SECONDS
        while (how := await self._homes.how_gone(client, shard)) is None:
            if time.monotonic() > deadline:
                raise _slow(client)
            await asyncio.sleep(next(pauses))
        return how


def _slow(client: str) -> Problem:
    return Problem(503, "home_slow", f"the home of {client} has not answered yet; ask again")


def _check_same(there: Spec, asked: Spec) -> None:
    """What the server chose (expiry, idle time, shard numbers) may differ."""
    for what, one, other in (
        ("data set", (there.dataset, there.version), (asked.dataset, asked.version)),
        ("parameters", dict(there.params), dict(asked.params)),
        ("columns", dict(there.columns), dict(asked.columns)),
    ):
        if one != other:
            raise Problem(
                409,
                "other_spec",
                f"{there.client} was begun with other {what}; take another id, or the same {what}",
            )
