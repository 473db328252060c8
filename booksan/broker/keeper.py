"""Keeps a node running: starts it, brings it back when it dies, tells others how it is."""

import json
import logging
import os
import signal
import time
from pathlib import Path
from types import FrameType
from typing import Any

from booksan.broker.files import write_private
from booksan.broker.node import Broker
from booksan.errors import BooksanError, UsageError
from booksan_client.interrupts import heed

log = logging.getLogger("booksan.broker")

#: Seconds before a node is started again: first, and longest when it dies again and again.
PAUSES = (0.1, 5.0)
#: Seconds after which a node counts as healthy, so that its next death is a first one.
HEALTHY_SECONDS = 30.0

STATUS = "broker.json"


class Stop(BaseException):
    """A signal asks for the end. Not an Exception: nothing on the way may take it for a fault."""


class Keeper:
    def __init__(self, directory: Path, port: int = 0) -> None:
        self._broker = Broker(directory, port)
        self._restarts = 0
        self._pause = PAUSES[0]

    def run(self) -> None:
        """Until SIGTERM, SIGINT or SIGHUP; an error if the node does not even start once."""
        heed(_raise_stop, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        try:
            self._broker.start()
            while True:
                self._tell(ready=True)
                self._watch()
                self._bring_back()
        except Stop:
            log.info("stopping the broker in %s", self._broker.directory)
        finally:
            held = self._broker.held
            self._broker.stop()
            if held:
                self._tell(ready=False)

    def _watch(self) -> None:
        began = time.monotonic()
        self._broker.wait()
        log.warning("the broker in %s died", self._broker.directory)
        if time.monotonic() - began > HEALTHY_SECONDS:
            self._pause = PAUSES[0]

    def _bring_back(self) -> None:
        while True:
            self._restarts += 1
            self._tell(ready=False)
            time.sleep(self._pause)
            self._pause = min(self._pause * 2, PAUSES[1])
            try:
                self._broker.start()
                return
            except UsageError:
                # Another keeper took over: trying again would only disturb it.
                raise
            except BooksanError as error:
                log.warning("%s", error)

    def _tell(self, *, ready: bool) -> None:
        status = {
            "url": self._broker.url,
            "port": self._broker.port,
            "pid": self._broker.pid,
            "keeper": os.getpid(),
            "restarts": self._restarts,
            "ready": ready,
        }
        write_private(self._broker.directory / STATUS, json.dumps(status, indent=2) + "\n")


def read_status(directory: Path) -> dict[str, Any] | None:
    """What the keeper of the directory wrote last; None if there never was one."""
    try:
        status: dict[str, Any] = json.loads((directory / STATUS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return status


def _raise_stop(signum: int, _frame: FrameType | None) -> None:
    # Once: the orderly end must not be interrupted by an impatient second key press.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    raise Stop(signum)
