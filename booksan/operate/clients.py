"""What unfinished clients are made of, from the databases of their shards."""

import sqlite3
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from booksan.errors import UsageError
from booksan.inspection import (
    StreamProgress,
    clients,
    failures,
    missing_numbers,
    progress,
    recorded,
    sizes,
)
from booksan.operate.directories import DataDirectory
from booksan.operate.letters import find_letters


def inspect_clients(
    directories: Sequence[DataDirectory], client: str | None
) -> list[dict[str, Any]]:
    """Of every client on every host; short transactions only, so nobody has to wait."""
    found = [
        describe(directory, name)
        for directory in directories
        for name in _clients(directory)
        if client is None or name == client
    ]
    if client is not None and not found:
        raise UsageError(f"there is no unfinished client {client!r} on this machine")
    return found


def describe(directory: DataDirectory, client: str) -> dict[str, Any]:
    root = directory.path
    letters = [letter for letter in find_letters([directory]) if letter.client == client]
    return {
        "data_dir": str(root),
        "client": client,
        "progress": [_stream(root, stream) for stream in progress(root, client)],
        "databases": _sizes(root, client),
        "letters": [letter.as_dict() for letter in letters],
        "failures": failures(root, client),
    }


def _clients(directory: DataDirectory) -> list[str]:
    """Also those of whom there is nothing but letters: their first message was deadly."""
    of_letters = {letter.client for letter in find_letters([directory]) if letter.client}
    return sorted(of_letters | set(clients(directory.path)))


def _stream(root: Path, stream: StreamProgress) -> dict[str, Any]:
    try:
        gaps, dedup = missing_numbers(root, stream), recorded(root, stream)
    except sqlite3.DatabaseError:
        # The client has just left.
        gaps, dedup = [], 0
    return asdict(stream) | {"missing": gaps, "dedup": dedup}


def _sizes(root: Path, client: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    try:
        found.extend(asdict(size) for size in sizes(root, client))
    except sqlite3.DatabaseError:
        # A damaged one; `failures` tells which.
        return found
    return found
