"""When each kind is hit, from a seed. Time in, decision out.

Each kind has a chance of its own, so that its gaps are the same whatever other kinds there are.
A strike that finds nobody to hit stays due: it comes as soon as somebody is back.
"""

import random
from collections.abc import Mapping

from booksan.chaos.kinds import Kind

#: A gap is between these times the cadence: moments that nobody can foresee, about as often.
JITTER = (0.5, 1.5)


class Schedule:
    def __init__(self, seed: int, every: Mapping[Kind, float], now: float) -> None:
        self._every = dict(every)
        self._gaps = {kind: random.Random(f"{seed}/gap/{kind}") for kind in every}
        self._choices = {kind: random.Random(f"{seed}/choice/{kind}") for kind in every}
        self._due = {kind: now + self._gap(kind) for kind in every}

    def due(self, now: float) -> list[Kind]:
        """The kinds whose moment has come, the one that waits longest first."""
        waiting = [kind for kind, moment in self._due.items() if moment <= now]
        return sorted(waiting, key=lambda kind: self._due[kind])

    def struck(self, kind: Kind, now: float) -> None:
        self._due[kind] = now + self._gap(kind)

    def next_due(self, now: float) -> float:
        """The next moment to come; those that wait for a victim are past already."""
        return min((moment for moment in self._due.values() if moment > now), default=float("inf"))

    def chance(self, kind: Kind) -> random.Random:
        """For what else has to be decided about a strike of this kind."""
        return self._choices[kind]

    def _gap(self, kind: Kind) -> float:
        return self._every[kind] * self._gaps[kind].uniform(*JITTER)
