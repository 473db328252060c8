"""Durations as a person writes them: 2s, 500ms, 1.5m, or plain seconds."""

import re

from booksan.errors import UsageError

_FORM = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|)")
_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(option: str, text: str) -> float:
    """Seconds, more than none."""
    found = _FORM.fullmatch(text.strip())
    seconds = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if seconds <= 0:
        raise UsageError(f"{option} {text!r} is not a duration; write 2s, 500ms or 1m")
    return seconds
