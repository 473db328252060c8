"""The data sets that can be made, each loaded when it is asked for."""

from collections.abc import Iterator, Mapping
from importlib import import_module

from booksan.errors import UsageError
from booksan.generate.generator import Generator

#: Each is a module beside this one that offers its `GENERATOR`.
NAMES = ("books", "flights", "aoe2", "steam")


class Generators(Mapping[str, Generator]):
    """All generators by name. A module is imported when its generator is looked up."""

    def __getitem__(self, name: str) -> Generator:
        if name not in NAMES:
            raise KeyError(name)
        found = import_module(f"booksan.generate.{name}").GENERATOR
        assert isinstance(found, Generator)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


GENERATORS = Generators()


def generator_named(name: str) -> Generator:
    """The generator of the data set, or an error that names those there are."""
    try:
        return GENERATORS[name]
    except KeyError:
        known = ", ".join(NAMES)
        raise UsageError(f"there is no data set {name!r} to generate; choose of {known}") from None
