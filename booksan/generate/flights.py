"""The data set `flights`, made from a seed."""

from collections.abc import Iterator
from datetime import date, timedelta
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from booksan.generate import airports, words
from booksan.generate.airports import BUSY, ON_THE_WAY, Airport, miles
from booksan.generate.generator import (
    Chance,
    Dirt,
    Files,
    Generated,
    Generator,
    Quantiles,
    Row,
    weighted,
)

# Journeys by timetable: all of an itinerary that is the same on every day it is flown.

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


# The rows of csv: journeys that were on sale on some day, and their fares.

COLUMNS = (
    *("legId", "searchDate", "flightDate", "startingAirport", "destinationAirport"),
    *("fareBasisCode", "travelDuration", "elapsedDays", "isBasicEconomy", "isRefundable"),
    *("isNonStop", "baseFare", "totalFare", "seatsRemaining", "totalTravelDistance"),
    *("segmentsDepartureTimeEpochSeconds", "segmentsDepartureTimeRaw"),
    *("segmentsArrivalTimeEpochSeconds", "segmentsArrivalTimeRaw", "segmentsArrivalAirportCode"),
    *("segmentsDepartureAirportCode", "segmentsAirlineName", "segmentsAirlineCode"),
    *("segmentsEquipmentDescription", "segmentsDurationInSeconds", "segmentsDistance"),
    "segmentsCabinCode",
)
ID, START, END = (COLUMNS.index(name) for name in (COLUMNS[0], *COLUMNS[3:5]))
DURATION = COLUMNS.index("travelDuration")
FARE = COLUMNS.index("totalFare")
DISTANCE = COLUMNS.index("totalTravelDistance")
ARRIVALS = COLUMNS.index("segmentsArrivalAirportCode")
EQUIPMENT = COLUMNS.index("segmentsEquipmentDescription")

#: The share of journeys with more stops than none, one, two and three, as in the public data.
_MORE_STOPS = (0.715, 0.079, 0.0042, 0.0002)
#: Journeys of a route by their stops.
_JOURNEYS = (8, 24, 12, 6, 3)
_MOST_JOURNEYS = 32
#: The share of rows with something odd in them.
_ODD_SHARE = 0.011
#: The share of rows with the journey and the date of the row before, found on another date.
_AGAIN_SHARE = 0.02
_FIRST_DAY = date(2022, 4, 16)
_DAYS = 217
_MOST_AHEAD = 60
#: Odd, so that different journeys have different ids.
_SCATTER = 0x9E3779B97F4A7C15F39CC0605CEDC835
#: A fare by share of the journeys, in cents on a route of middling length.
_FARES = Quantiles(
    (
        *((0.0, 3069), (0.01, 8360), (0.05, 12461), (0.1, 15860), (0.25, 22860), (0.5, 35160)),
        *((0.75, 49720), (0.9, 63610), (0.95, 72860), (0.99, 99720), (0.999, 180460)),
        (1.0, 295570),
    )
)
_LEVELS = 4000
#: Some fares of a route are asked for more often than the others.
_USUAL, _USUAL_SHARE = 20, 0.4
_ENDINGS = (60, 10, 20, 61, 58, 60, 9)
_SEATS = weighted(
    (*(("7", 31), ("9", 21), ("1", 9), ("4", 8), ("2", 7), ("0", 7), ("3", 7)), ("5", 5), ("6", 5))
)
_BASES = 1500


class Route:
    """Two airports, the fares between them, and the journeys made so far."""

    def __init__(self, number: int, start: Airport, end: Airport, chance: Chance) -> None:
        self.number = number
        self.start = start
        self.end = end
        self.near = miles(start, end) < NEAR
        self.levels = 2600 + chance.below(_LEVELS - 2600)
        self.factor = 0.75 + miles(start, end) / 5000 + chance.random() * 0.1
        # Few take a plane to the other side of the city.
        self.weight = start.weight * end.weight // (140 if self.near else 40)
        self.journeys: dict[int, Journey] = {}


class Itineraries:
    """Makes the rows, one by one, in no order, as they are in the public file."""

    def __init__(self, seed: int) -> None:
        chance = self._chance = Chance(seed, "itineraries")
        pairs = [(a, b) for a in BUSY for b in BUSY if a is not b]
        routes = [Route(i, a, b, chance) for i, (a, b) in enumerate(pairs)]
        self._routes = weighted((each, each.weight) for each in routes)
        self._fares = [int(_FARES.at(i / _LEVELS)) for i in range(_LEVELS)]
        self._bases = [self._basis() for _ in range(_BASES)]
        days = [_FIRST_DAY + timedelta(days=i) for i in range(_DAYS + len(MARKS))]
        self._days = [day.isoformat() for day in days]
        self._midnights = [(day - date(1970, 1, 1)).days * 86_400 for day in days]

    def rows(self, itineraries: int) -> Iterator[Row]:
        random = self._chance.random
        route, found, day = self._any()
        for _ in range(itineraries):
            if random() >= _AGAIN_SHARE:
                route, found, day = self._any()
            row = self._row(route, found, day)
            yield row if random() >= _ODD_SHARE else self._odd(row)

    def _any(self) -> tuple[Route, Journey, int]:
        """A journey of some route, and the day on which it is flown."""
        random, routes = self._chance.random, self._routes
        route = routes[int(random() * len(routes))]
        u = random()
        stops = 1 if route.near else 0
        while stops < 4 and u < _MORE_STOPS[stops]:
            stops += 1
        key = stops * _MOST_JOURNEYS + int(random() * _JOURNEYS[stops])
        found = route.journeys.get(key)
        if found is None:
            number = route.number * 5 * _MOST_JOURNEYS + key
            found = journey(number, route.start, route.end, stops, self._chance)
            route.journeys[key] = found
        return route, found, 1 + int(random() * (_DAYS - 1))

    def _row(self, route: Route, found: Journey, day: int) -> Row:
        random, days, midnight = self._chance.random, self._days, self._midnights[day]
        flown = days[day]
        ahead = 1 + int(random() * (day if day < _MOST_AHEAD else _MOST_AHEAD))
        cents = self._fare(route, len(found.departures))
        departures = [str(midnight + each) for each in found.departures]
        arrivals = [str(midnight + each) for each in found.arrivals]
        departure_times = found.departure_times.replace("@", flown)
        arrival_times = found.arrival_times.replace("@", flown)
        if found.elapsed_days != "0":
            departure_times = self._dated(departure_times, day)
            arrival_times = self._dated(arrival_times, day)
        return [
            f"{(found.number * 1000 + day) * _SCATTER % (1 << 128):032x}",
            days[day - ahead],
            flown,
            found.start,
            found.end,
            self._bases[int(random() * _BASES)],
            found.duration,
            found.elapsed_days,
            "True" if random() < 0.045 else "False",
            "False",
            found.non_stop,
            f"{(cents * 40 // 43 - 1300 if cents > 5000 else cents) / 100:.2f}",
            f"{cents / 100:.2f}",
            _SEATS[int(random() * len(_SEATS))],
            found.distance,
            BETWEEN.join(departures),
            departure_times,
            BETWEEN.join(arrivals),
            arrival_times,
            *found.segments,
        ]

    def _dated(self, times: str, day: int) -> str:
        for mark, date_of in zip(MARKS[1:], self._days[day + 1 :], strict=False):
            times = times.replace(mark, date_of)
        return times

    def _fare(self, route: Route, segments: int) -> int:
        """In cents: one of the route's, the more stops the dearer."""
        random = self._chance.random
        u = random()
        if segments == 1:
            u *= 0.1 + 0.9 * u
        elif segments > 2:
            u = 1 - (1 - u) * (1 - u)
        level = int(u * route.levels)
        if random() < _USUAL_SHARE:
            level = int((int(u * _USUAL) + 0.5) * route.levels / _USUAL)
        cents = int(self._fares[level * _LEVELS // route.levels] * route.factor)
        return cents if level % 2 else cents // 100 * 100 + _ENDINGS[level % len(_ENDINGS)]

    def _basis(self) -> str:
        return words.code(6 + self._chance.below(3), self._chance)

    def _odd(self, row: Row) -> Row:
        """The row with a value that lacks, or one that is rare."""
        chance = self._chance
        sort = chance.random()
        if sort < 0.3:
            lacking = (FARE, DURATION, DISTANCE, ID, START, END, ARRIVALS)
            row[chance.pick(lacking)] = ""
        elif sort < 0.6:
            row[chance.pick((START, END))] = chance.pick(_ODD_ENDS)
        elif sort < 0.7:
            row[START if chance.happens(0.5) else END] = airports.TWIN
            row[END if row[START] == airports.TWIN else START] = airports.TWIN_OF.code
        elif sort < 0.85:
            row[FARE] = _respelled(row[FARE], chance)
            row[DISTANCE] = row[DISTANCE] and _respelled(f"{row[DISTANCE]}.0", chance)
        elif sort < 0.9:
            row[DURATION] = chance.pick(_ODD_DURATIONS)
        elif sort < 0.98:
            row[EQUIPMENT] = chance.pick(_ODD_EQUIPMENT)
        else:
            row[ARRIVALS] += f"{BETWEEN}ABC{BETWEEN}FBC{BETWEEN}{row[END]}"
        return row


_ODD_ENDS = (*airports.ODD_LATITUDES, *airports.UNKNOWN)
_ODD_EQUIPMENT = (
    "Embraer 175, Enhanced Winglets",
    'Cessna "Caravan"',
    "Boeing 737-800\n(second row)",
    'Saab 340, "Bellevue"\nor like it',
    "Bombardier Q400 – Häuptling",
)
#: A day and more, and the same lengths of time written in other ways.
_ODD_DURATIONS = ("P1DT2H", "PT26H", "PT1560M", "P1D", "P1DT6H58M", "PT0H59M", "PT59M30S", "P2DT1M")


def _respelled(number: str, chance: Chance) -> str:
    """The same value in other letters; the number has a point."""
    digits = number.replace(".", "")
    point = len(number) - number.index(".") - 1
    return chance.pick(
        (f" {number}", f"{number} ", f"+{number}", f"{digits}e-{point}", f"{digits}.E-{point}",
         f"0{number}", f"{number}0")
    )  # fmt: skip


# The data set `flights`: airports-codepublic.csv and csv, made from a seed.
#
# The files have the columns of the public ones, their proportions and their warts. The same
# arguments give the same bytes everywhere.

AIRPORTS_FILE = "airports-codepublic.csv"
ITINERARIES_FILE = "itineraries.csv"

#: Airports in the public file. Small data gets one for ten itineraries, but not fewer than these.
MOST_AIRPORTS = 9_187
FEWEST_AIRPORTS = 100

_DIRTY_AIRPORTS = partial(Dirt, text=airports.NAME, number=airports.LATITUDE, style=airports.STYLE)
_DIRTY_ITINERARIES = partial(Dirt, text=EQUIPMENT, number=FARE, duration=DURATION, oversized=True)


def _made(files: Files, places: int, rows: int) -> Generated:
    first = files.write(
        AIRPORTS_FILE,
        airports.COLUMNS,
        airports.Airports(places, files.seed).rows(),
        places,
        _DIRTY_AIRPORTS,
        "dirty airports",
        airports.STYLE,
    )
    journeys = Itineraries(files.seed).rows(rows)
    dirt = _DIRTY_ITINERARIES
    second = files.write(ITINERARIES_FILE, COLUMNS, journeys, rows, dirt, "dirty itineraries")
    return Generated(first, second)


GENERATOR = Generator(
    files=(AIRPORTS_FILE, ITINERARIES_FILE),
    rows_help="itineraries",
    first_rows=lambda flights: max(FEWEST_AIRPORTS, min(MOST_AIRPORTS, flights // 10)),
    make=_made,
)
