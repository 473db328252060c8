"""Programs and libraries: which are there, and whether they are new enough."""

import platform
import re
import sqlite3
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import booksan
from booksan.broker.server import find_server
from booksan.doctor.finding import Finding, fail, ok, warn

#: RETURNING came with this one.
LEAST_SQLITE = (3, 35, 0)
LIBRARIES = ("polars", "pika")


def check_versions() -> Iterator[Finding]:
    yield ok("booksan", f"{booksan.__version__}, Python {platform.python_version()}")
    yield check_sqlite(sqlite3.sqlite_version_info)
    for name in LIBRARIES:
        yield check_library(name)
    yield check_server(find_server())


def check_sqlite(version: tuple[int, ...]) -> Finding:
    text, least = (".".join(map(str, one)) for one in (version, LEAST_SQLITE))
    if version < LEAST_SQLITE:
        advice = f"use a Python whose SQLite is {least} or newer"
        return fail("SQLite", f"{text} is too old", advice)
    return ok("SQLite", text)


def check_library(name: str) -> Finding:
    try:
        return ok(name, metadata.version(name))
    except metadata.PackageNotFoundError:
        return fail(name, "is not installed", f"install it: pip install {name}")


def check_server(server: Path | None) -> Finding:
    """Only `cluster up --with-broker` needs one on this machine."""
    if server is None:
        return warn(
            "RabbitMQ",
            "there is no rabbitmq-server on this machine",
            "install it if you want `cluster up --with-broker`; spools and brokers elsewhere "
            "need none",
        )
    found = re.search(r"rabbitmq_server-([0-9.]+)", str(server.resolve()))
    version = found[1] if found else _installed_version(server)
    return ok("RabbitMQ", " ".join(filter(None, (version, str(server)))))


def _installed_version(server: Path) -> str:
    """Debian keeps the version in the name of a directory beside the scripts."""
    libraries = server.resolve().parent.parent / "lib"
    names = sorted(path.name for path in libraries.glob("rabbitmq_server-*"))
    return names[-1].removeprefix("rabbitmq_server-") if names else ""
