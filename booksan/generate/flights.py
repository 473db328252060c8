"""The data set `flights`: airports-codepublic.csv and itineraries.csv, made from a seed.

The files have the columns of the public ones, their proportions and their warts. The same
arguments give the same bytes everywhere.
"""

from pathlib import Path

from booksan.generate import airports, itineraries
from booksan.generate.chance import Chance
from booksan.generate.dirt import Dirt
from booksan.generate.files import Progress
from booksan.generate.generator import Generated, Generator, prepare, write_rows

AIRPORTS_FILE = "airports-codepublic.csv"
ITINERARIES_FILE = "itineraries.csv"

#: Airports in the public file. Small data gets one for ten itineraries, but not fewer than these.
MOST_AIRPORTS = 9_187
FEWEST_AIRPORTS = 100


def generate_flights(
    out: Path,
    *,
    rows: int,
    seed: int,
    dirty: bool = False,
    progress: Progress | None = None,
    first_rows: int | None = None,
) -> Generated:
    """Write `rows` itineraries, and the airports between which they lead."""
    places = max(FEWEST_AIRPORTS, min(MOST_AIRPORTS, rows // 10))
    places = places if first_rows is None else first_rows
    prepare(out, places, rows)
    first = write_rows(
        out / AIRPORTS_FILE,
        airports.COLUMNS,
        airports.Airports(places, seed).rows(),
        places,
        dirt=_dirty_airports(seed) if dirty else None,
        progress=progress,
        style=airports.STYLE,
    )
    second = write_rows(
        out / ITINERARIES_FILE,
        itineraries.COLUMNS,
        itineraries.Itineraries(seed).rows(rows),
        rows,
        dirt=_dirty_itineraries(seed) if dirty else None,
        progress=progress,
    )
    return Generated(first, second)


def _dirty_airports(seed: int) -> Dirt:
    chance = Chance(seed, "dirty airports")
    return Dirt(chance, text=airports.NAME, number=airports.LATITUDE, style=airports.STYLE)


def _dirty_itineraries(seed: int) -> Dirt:
    return Dirt(
        Chance(seed, "dirty itineraries"),
        text=itineraries.EQUIPMENT,
        number=itineraries.FARE,
        duration=itineraries.DURATION,
        oversized=True,
    )


GENERATOR = Generator(
    files=(AIRPORTS_FILE, ITINERARIES_FILE), rows_help="itineraries", generate=generate_flights
)
