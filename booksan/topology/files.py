"""A topology by its name (`three`) or by the path of its file (`hosts/three.toml`)."""

import sysconfig
from pathlib import Path

import booksan
from booksan.errors import UsageError
from booksan.stages.datasets import datasets
from booksan.topology.model import Topology
from booksan.topology.parse import NAME, parse_topology
from booksan.topology.section import nearest

DEFAULT = "single"


def topology_directories() -> tuple[Path, ...]:
    """In a source tree, else where the installation put them."""
    source = Path(booksan.__file__).resolve().parent.parent / "hosts"
    return source, Path(sysconfig.get_path("data")) / "share" / "booksan" / "hosts"


def known_topologies() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for directory in topology_directories():
        for path in sorted(directory.glob("*.toml")):
            found.setdefault(path.stem, path)
    return found


def find_topology(config: str) -> Path:
    """What has a slash or a suffix is a path; a plain name is one that booksan knows."""
    if not NAME.fullmatch(config):
        return Path(config)
    known = known_topologies()
    if config not in known:
        raise UsageError(
            f"no topology is named {config!r}; {nearest(config, known)}; or give a file's path"
        )
    return known[config]


def load_topology(config: str = DEFAULT) -> Topology:
    path = find_topology(config)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not TOML: it is not text in UTF-8") from None
    except OSError as error:
        raise UsageError(
            f"the topology {path} cannot be read: {error.strerror}; give a file's path or one of "
            f"the names {', '.join(sorted(known_topologies()))}"
        ) from None
    return parse_topology(text, str(path), datasets())
