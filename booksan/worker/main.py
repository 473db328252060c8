"""A worker's process, from the fork to its end."""

import logging
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from booksan.errors import EXIT_CANNOT_START, StateError, UsageError
from booksan.memory import quiet_collector
from booksan.state.shard import ShardStore, lock_shard
from booksan.tickets import load_secret
from booksan.transport.spool import Spool
from booksan.worker import crash
from booksan.worker.environment import is_environment
from booksan.worker.loop import Worker
from booksan.worker.settings import Settings
from booksan.worker.shard import Shard

log = logging.getLogger("booksan.worker")

#: Seconds that an idle worker waits before it looks at its clock again.
IDLE_SECONDS = 5.0
#: Seconds that a new worker waits for its first message before it loads what that will need: on
#: a small machine those who have work already go first.
WARM_UP_SECONDS = 0.5
#: Seconds to wait when the machine, not a message, is the trouble: first and longest.
PAUSES = (0.1, 2.0)


class Life:
    """One worker process: takes SIGTERM, and outlives full disks and lost connections."""

    def __init__(self, root: Path, stage: str, shard: int) -> None:
        self.root = root
        self.stage = stage
        self.shard = shard
        self.stopping = False
        self.worker: Worker | None = None

    def stop(self, signum: int, frame: FrameType | None) -> None:
        """SIGTERM drains: what is in hand is finished and acknowledged, then the process ends."""
        self.stopping = True
        if self.worker is not None:
            self.worker.consumer.wake()

    def run(self) -> None:
        pause, longest = PAUSES
        first = True
        while not self.stopping:
            try:
                self._work(suspicious=first)
            except Exception as error:
                if not is_environment(error):
                    raise
                log.warning("%s.%s waits: %s", self.stage, self.shard, error)
                time.sleep(pause)
                pause = min(pause * 2, longest)
            first = False

    def _work(self, *, suspicious: bool) -> None:
        settings = Settings.from_environment()
        with Spool(self.root, sync=settings.synchronous != "OFF") as transport:
            store = ShardStore(self.root, self.stage, self.shard, synchronous=settings.synchronous)
            try:
                shard = Shard(
                    self.stage,
                    self.shard,
                    root=self.root,
                    transport=transport,
                    store=store,
                    secret=load_secret(self.root),
                    settings=settings,
                    crash=crash.from_environment(self.stage, self.shard),
                )
                self._serve(Worker(shard), suspicious=suspicious)
            finally:
                store.close()

    def _serve(self, worker: Worker, *, suspicious: bool) -> None:
        self.worker = worker
        try:
            worker.resume(suspicious=suspicious)
            if not worker.step(WARM_UP_SECONDS):
                worker.warm_up()
            quiet_collector()
            while not self.stopping:
                worker.step(IDLE_SECONDS)
        except BaseException:
            worker.abandon()
            raise
        finally:
            self.worker = None
        worker.close()


def run(data_dir: Path, stage: str, shard: int) -> int:
    """The entry that the supervisor calls in the forked child."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    life = Life(data_dir, stage, shard)
    signal.signal(signal.SIGTERM, life.stop)
    try:
        lock = lock_shard(data_dir, stage, shard)
    except StateError as error:
        log.error("%s", error)
        return 1
    try:
        life.run()
    except UsageError as error:
        log.error("%s.%s cannot start: %s", stage, shard, error)
        return EXIT_CANNOT_START
    finally:
        os.close(lock)
    return 0
