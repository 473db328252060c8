"""The parameters of a data set, as a command line sets them and as they travel."""

import math
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import force_setattr

from booksan_common.errors import UsageError
from booksan_common.names import nearest

ParamValue = int | float | str


class Param(Struct, frozen=True):
    name: str
    default: ParamValue
    help: str
    #: None: there is no such bound.
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        """JSON has no infinity."""
        for name in ("low", "high"):
            if getattr(self, name) in (-math.inf, math.inf):
                force_setattr(self, name, None)

    @property
    def bounds(self) -> tuple[float, float]:
        low = -math.inf if self.low is None else self.low
        return low, math.inf if self.high is None else self.high

    def parse(self, text: str) -> ParamValue:
        """The value in a command line's `--set name=text`, of the default's type."""
        if isinstance(self.default, str):
            if not text.isprintable():
                raise UsageError(f"{self.name} must be printable text, not {text!r}")
            return text
        whole = isinstance(self.default, int)
        try:
            value = int(text) if whole else _finite(text)
        except ValueError:
            kind = "a whole number" if whole else f"a number{self._bounds()}"
            raise UsageError(f"{self.name} must be {kind}, not {text!r}") from None
        low, high = self.bounds
        if not low <= value <= high:
            raise UsageError(f"{self.name} must be{self._bounds()}, not {text}")
        return value

    def _bounds(self) -> str:
        if self.bounds == (-math.inf, math.inf):
            return ""
        return " between {:g} and {:g}".format(*self.bounds)


def parse_params(
    dataset: str, params: Sequence[Param], settings: Sequence[str]
) -> dict[str, ParamValue]:
    """All parameters, with `name=value` settings on top of the defaults."""
    known = {param.name: param for param in params}
    values = {param.name: param.default for param in params}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise UsageError(f"--set takes name=value, not {setting!r}")
        if name not in known:
            raise UsageError(f"{dataset} has no parameter {name!r}; {nearest(name, known)}")
        values[name] = known[name].parse(text)
    return values


def _finite(text: str) -> float:
    """JSON, in which parameters travel, knows no others."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value
