"""Keeping Python's garbage collector out of the way of the work."""

import gc


def quiet_collector() -> None:
    """What is loaded by now stays, so it need not be looked at again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
