"""A worker's process, from the fork to its end."""

import logging
import os
import resource
import signal
import time
from dataclasses import replace
from pathlib import Path
from types import FrameType

from booksan import logs, news
from booksan.clock import Clock
from booksan.errors import EXIT_CANNOT_START, QueueBusy, StateError, UsageError
from booksan.heartbeat import beat, quiet_collector
from booksan.shards import ShardId
from booksan.state.shard import ShardStore, lock_shard
from booksan.tickets import load_secret
from booksan.transport import open_transport, queues_address
from booksan.worker.failures import is_environment
from booksan.worker.loop import Worker
from booksan.worker.shard import Settings, Shard, crash_points
from booksan_common.backoff import Backoff

log = logging.getLogger("booksan.worker")

#: Seconds that an idle worker waits before it looks at its clock again.
IDLE_SECONDS = 5.0
#: Seconds that another owner of the queue gets to go before it is told of as a mistake: a broker
#: notices the loss of a whole machine only by missing heartbeats, after two or three of 15 s.
OWNER_SECONDS = 90.0
#: Files of an open database: itself, its log, and their index.
FILES_OF_SESSION = 3
#: What else a worker has open: queues, its own database, logs, and files for a moment.
OTHER_FILES = 40
#: Seconds to wait when the machine, not a message, is the trouble: first and longest.
PAUSES = (0.1, 2.0)


class WorkerProcess:
    """One worker process: takes SIGTERM, and outlives full disks and lost connections."""

    def __init__(self, root: Path, stage: str, shard: int) -> None:
        self.root = root
        self.stage = stage
        self.shard = shard
        self.stopping = False
        self.worker: Worker | None = None
        self.owner_seconds = float(os.environ.get("BOOKSAN_OWNER_SECONDS", OWNER_SECONDS))
        self._busy_since: float | None = None
        self.clock = Clock(root)

    def stop(self, signum: int, frame: FrameType | None) -> None:
        """SIGTERM drains: what is in hand is finished and acknowledged, then the process ends."""
        self.stopping = True
        if self.worker is not None:
            self.worker.consumer.wake()

    def run(self) -> None:
        pauses = Backoff(*PAUSES)
        first = True
        while not self.stopping:
            try:
                self._work(suspicious=first)
            except Exception as error:
                if not is_environment(error):
                    raise
                self._tell(error)
                beat()
                time.sleep(next(pauses))
            first = False

    def _tell(self, error: Exception) -> None:
        """Why nothing moves. A queue that stays busy seems to have another owner; still the worker
        waits, for the other shards of its host must not end with it, and the other may yet go."""
        log.warning("waits: %s", error)
        if not isinstance(error, QueueBusy):
            self._busy_since = None
            return
        now = time.monotonic()
        self._busy_since = self._busy_since or now
        if now - self._busy_since >= self.owner_seconds:
            log.error(
                "another process works as %s.%s, and this one waits until it is gone; a shard has "
                "one owner, so stop the other host or leave the shard to it",
                self.stage,
                self.shard,
            )

    def _work(self, *, suspicious: bool) -> None:
        settings = Settings.from_environment()
        sync = settings.synchronous != "OFF"
        with open_transport(queues_address(self.root), sync=sync) as transport:
            store = ShardStore(self.root, self.stage, self.shard, synchronous=settings.synchronous)
            try:
                shard = Shard(
                    self.stage,
                    self.shard,
                    root=self.root,
                    transport=transport,
                    store=store,
                    secret=load_secret(self.root),
                    settings=replace(settings, max_sessions=sessions_at_once(settings)),
                    crash=crash_points(self.stage, self.shard),
                    clock=self.clock,
                )
                self._serve(Worker(shard), suspicious=suspicious)
            finally:
                store.close()

    def _serve(self, worker: Worker, *, suspicious: bool) -> None:
        self.worker = worker
        try:
            worker.resume(suspicious=suspicious)
            news.ready()
            quiet_collector()
            while not self.stopping:
                worker.step(IDLE_SECONDS)
        except BaseException:
            worker.abandon()
            raise
        finally:
            self.worker = None
        worker.close()


def sessions_at_once(settings: Settings) -> int:
    """As many as wanted, within the limit of open files, which is raised as far as it goes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard == resource.RLIM_INFINITY:
        return settings.max_sessions
    return max(1, min(settings.max_sessions, (hard - OTHER_FILES) // FILES_OF_SESSION))


def run(data_dir: Path, stage: str, shard: int) -> int:
    """The entry that the supervisor calls in the forked child."""
    logs.set_up(str(ShardId(stage, shard)))
    life = WorkerProcess(data_dir, stage, shard)
    signal.signal(signal.SIGTERM, life.stop)
    try:
        lock = lock_shard(data_dir, stage, shard)
    except StateError as error:
        log.error("%s", error)
        return 1
    try:
        life.run()
    except (UsageError, StateError) as error:
        log.error("cannot start: %s", error)
        return EXIT_CANNOT_START
    finally:
        os.close(lock)
    return 0


def preload() -> None:
    """What the first messages need, for those who fork workers. No query runs here."""
    from booksan.datasets import import_own
    from booksan.worker import handler  # noqa: F401

    import_own()
    if not queues_address(Path()).startswith("spool:"):
        from booksan.transport import rabbitmq  # noqa: F401
