"""What is in the layers of an image, file by file."""

import io
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, NamedTuple

#: Bytes; what is larger is a layer.
_PAPER = 100_000


class Content(NamedTuple):
    name: str
    data: bytes


def contents(image: str) -> Iterator[Content]:
    """Every file of every layer, also hidden ones, and the papers of the image itself."""
    with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saved:
        assert saved.stdout is not None
        with tarfile.open(fileobj=saved.stdout, mode="r|") as outer:
            for member in outer:
                file = outer.extractfile(member) if member.isfile() else None
                if file is not None:
                    yield from _layer(member, file)
        # What follows the end of the archive.
        saved.stdout.read()
    assert saved.returncode == 0


def _layer(member: tarfile.TarInfo, file: IO[bytes]) -> Iterator[Content]:
    """Where the layers are depends on the engine, their form does not."""
    if member.size < _PAPER:
        data = file.read()
        yield Content(member.name, data)
        file = io.BytesIO(data)
    with suppress(tarfile.ReadError), tarfile.open(fileobj=file, mode="r|*") as layer:
        for one in layer:
            found = layer.extractfile(one) if one.isfile() else None
            yield Content(one.name, found.read() if found is not None else b"")
        return
    assert member.size < _PAPER, f"{member.name} cannot be read"
