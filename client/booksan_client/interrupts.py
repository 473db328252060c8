"""Ctrl-C, unless whoever started this process wants it to be ignored.

nohup, and a shell that starts a job in the background of a script, have a signal ignored from the
beginning: the key press is meant for another process. It then stays ignored.
"""

import signal
from collections.abc import Callable
from types import FrameType

Handler = Callable[[int, FrameType | None], object] | signal.Handlers


def heeded(*signums: signal.Signals) -> list[signal.Signals]:
    """Those that are not ignored."""
    return [signum for signum in signums if signal.getsignal(signum) is not signal.SIG_IGN]


def heed(handler: Handler, *signums: signal.Signals) -> None:
    for signum in heeded(*signums):
        signal.signal(signum, handler)
