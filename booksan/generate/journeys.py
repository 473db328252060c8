"""Journeys by timetable: all of an itinerary that is the same on every day it is flown."""

from itertools import pairwise
from typing import NamedTuple

from booksan.generate.airports import BUSY, ON_THE_WAY, Airport, miles
from booksan.generate.chance import Chance, weighted

#: Stand for the date of departure and the days after it.
MARKS = "@#&$"
#: Between the values of the segments.
BETWEEN = "||"
#: Miles below which nobody flies straight.
NEAR = 60

_SMALL = [each for each in ON_THE_WAY if each.code in ("STL", "BNA", "UIN", "OWB")]
_STOPS = (*BUSY, *BUSY, *ON_THE_WAY)
_AIRLINES = weighted(
    (
        *((("American Airlines", "AA"), 30), (("Delta", "DL"), 25), (("United", "UA"), 23)),
        *((("JetBlue Airways", "B6"), 9), (("Spirit Airlines", "NK"), 6)),
        *((("Alaska Airlines", "AS"), 4), (("Frontier Airlines", "F9"), 2)),
        (("Cape Air", "9K"), 1),
    )
)
_EQUIPMENT = weighted(
    (
        *(("Boeing 737-800", 17), ("Airbus A321", 13), ("Airbus A320", 9), ("Boeing 737-900", 8)),
        *(("Airbus A319", 7), ("", 7), ("Embraer 175 (Enhanced Winglets)", 6), ("Embraer 175", 5)),
        *(("Boeing 717", 4), ("Canadair Regional Jet 900", 3), ("Embraer 190", 3)),
        *(("AIRBUS INDUSTRIE A321 SHARKLETS", 3), ("Boeing 737 MAX 9", 2), ("Boeing 757", 1)),
    )
)
_CABINS = weighted((("coach", 990), ("first", 6), ("business", 3), ("premium coach", 1)))
#: Where the distance of a segment is not told, that of the journey is not either.
_UNTOLD_SHARE = 0.075


class Journey(NamedTuple):
    #: Its own, among all journeys.
    number: int
    start: str
    end: str
    duration: str
    elapsed_days: str
    non_stop: str
    distance: str
    #: Seconds after midnight UTC of the date of departure.
    departures: tuple[int, ...]
    arrivals: tuple[int, ...]
    #: Local times with marks in place of the dates.
    departure_times: str
    arrival_times: str
    #: The columns from segmentsArrivalAirportCode on.
    segments: list[str]


class Segment(NamedTuple):
    start: Airport
    end: Airport
    departure: int
    arrival: int
    distance: int


def journey(number: int, start: Airport, end: Airport, stops: int, chance: Chance) -> Journey:
    """One that departs at a time of its own and calls at so many airports between."""
    flown = _timetable(_way(start, end, stops, chance), chance)
    first, last = flown[0], flown[-1]
    minutes = last.arrival - first.departure
    untold = chance.happens(_UNTOLD_SHARE)
    return Journey(
        number,
        start.code,
        end.code,
        iso_duration(minutes),
        str(_day(last.arrival, end)),
        str(stops == 0),
        "" if untold else str(sum(each.distance for each in flown)),
        tuple(each.departure * 60 for each in flown),
        tuple(each.arrival * 60 for each in flown),
        BETWEEN.join([_local(each.departure, each.start) for each in flown]),
        BETWEEN.join([_local(each.arrival, each.end) for each in flown]),
        _columns(flown, untold, chance),
    )


def iso_duration(minutes: int) -> str:
    days, rest = divmod(minutes, 1440)
    hours, left = divmod(rest, 60)
    time = (f"{hours}H" if hours else "") + (f"{left}M" if left else "")
    return (f"P{days}D" if days else "P") + (f"T{time}" if time else "")


def _way(start: Airport, end: Airport, stops: int, chance: Chance) -> list[Airport]:
    """The airports from start to end; with one stop or two, some detours are avoided."""
    places = _STOPS if stops < 3 else _SMALL
    tries = [_between(start, end, stops, places, chance) for _ in range(4 if 0 < stops < 3 else 1)]
    return min(tries, key=_length)


def _between(
    start: Airport, end: Airport, stops: int, places: list[Airport] | tuple[Airport, ...],
    chance: Chance,
) -> list[Airport]:  # fmt: skip
    way = [start]
    while len(way) <= stops:
        place = chance.pick(places)
        if place not in (way[-1], start, end):
            way.append(place)
    return [*way, end]


def _length(way: list[Airport]) -> float:
    return sum(miles(a, b) for a, b in pairwise(way))


def _timetable(way: list[Airport], chance: Chance) -> list[Segment]:
    """Times are minutes after midnight UTC of the local date of departure."""
    time = 5 * (60 + chance.below(170)) - 60 * way[0].offset
    flown = []
    for a, b in pairwise(way):
        distance = int(miles(a, b)) + 1
        arrival = time + 32 + distance // 8 + chance.below(25)
        flown.append(Segment(a, b, time, arrival, distance))
        waits = 45 + chance.skewed(300)
        time = arrival + (waits + 480 if chance.happens(0.08) else waits)
    return flown


def _day(time: int, at: Airport) -> int:
    return (time + 60 * at.offset) // 1440


def _local(time: int, at: Airport) -> str:
    minute = (time + 60 * at.offset) % 1440
    mark = MARKS[min(_day(time, at), len(MARKS) - 1)]
    return f"{mark}T{minute // 60:02d}:{minute % 60:02d}:00.000-{-at.offset:02d}:00"


def _columns(flown: list[Segment], untold: bool, chance: Chance) -> list[str]:
    airline = chance.pick(_AIRLINES)
    other = chance.pick(_AIRLINES) if chance.happens(0.05) else airline
    airlines = [airline, *[other] * (len(flown) - 1)]
    values = (
        [each.end.code for each in flown],
        [each.start.code for each in flown],
        [name for name, _ in airlines],
        [code for _, code in airlines],
        [chance.pick(_EQUIPMENT) for _ in flown],
        [str((each.arrival - each.departure) * 60) for each in flown],
        ["None" if untold else str(each.distance) for each in flown],
        [chance.pick(_CABINS) for _ in flown],
    )
    return [BETWEEN.join(each) for each in values]
