"""A small file system that can be filled to the last byte."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest


class Disk(NamedTuple):
    path: Path

    def resize(self, size: str) -> None:
        _mount("-o", f"remount,size={size}", self.path)

    def fill(self) -> Path:
        filler = self.path / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        return filler


@contextlib.contextmanager
def small_disk(path: Path) -> Iterator[Disk]:
    """3 MB; skips the test where nothing can be mounted."""
    path.mkdir()
    try:
        _mount("-t", "tmpfs", "-o", "size=3m", "tmpfs", path)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small file system cannot be mounted here: {error}")
    yield Disk(path)
    subprocess.run(["umount", "--lazy", path], check=True)


def _mount(*words: str | Path) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True)
