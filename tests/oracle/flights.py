"""The answers of the data set flights, straight from the definition of its queries.

python -m tests.oracle.flights AIRPORTS FLIGHTS OUTDIR [--set q1.min_stopovers=2 ...]
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

from geographiclib.geodesic import Geodesic

from tests.oracle.common import (
    NO_PARAMS,
    Cells,
    Defaults,
    Params,
    command,
    csv_file,
    json_list,
    rejected_of,
    rounded,
)
from tests.oracle.kinds import iso_duration, number
from tests.oracle.reader import PLAIN, Form, Kind, rows

DEFAULTS: Defaults = MappingProxyType(
    {"q1.min_stopovers": 3, "q2.times": 4.0, "q3.min_stopovers": 3, "q3.fastest": 2}
)
NEEDED: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "airports": ("Airport Code", "Latitude", "Longitude"),
        "flights": (
            "legId",
            "startingAirport",
            "destinationAirport",
            "travelDuration",
            "totalFare",
            "totalTravelDistance",
            "segmentsArrivalAirportCode",
        ),
    }
)
KINDS: Mapping[str, Mapping[str, Kind]] = MappingProxyType(
    {
        "airports": {"Latitude": number, "Longitude": number},
        "flights": {
            "travelDuration": iso_duration,
            "totalFare": number,
            "totalTravelDistance": number,
        },
    }
)
FORMS: Mapping[str, Form] = MappingProxyType(
    {"airports": Form(delimiter=";", lacking=r"\N"), "flights": PLAIN}
)
METRES_OF_A_MILE = 1609.344

#: Latitude and longitude of an airport; None where it has no place on the globe.
Place = tuple[float, float] | None


@dataclass(frozen=True)
class Flight:
    """A row of flights with its texts as they came."""

    id: str
    start: str
    destination: str
    duration: str
    price: str
    distance: str
    arrivals: str

    @property
    def route(self) -> str:
        """Empty where one of the airports is lacking."""
        return f"{self.start}-{self.destination}" if self.start and self.destination else ""

    @property
    def stopovers(self) -> list[str]:
        return self.arrivals.split("||")[:-1]

    def has_stopovers(self, least: int) -> bool:
        return self.arrivals != "" and len(self.stopovers) >= least


def answers(
    first: Path, second: Path, params: Mapping[str, object] = NO_PARAMS
) -> dict[str, bytes]:
    """The result files q1 to q4 as they must be written."""
    settings = Params(DEFAULTS, params)
    airports = places(first)
    flights = every_flight(second)
    return {
        "q1": csv_file(("id", "route", "price", "stopovers"), q1(flights, settings)),
        "q2": csv_file(
            ("id", "route", "total_distance", "direct_distance"), q2(airports, flights, settings)
        ),
        "q3": csv_file(("route", "id", "stopovers", "duration"), q3(flights, settings)),
        "q4": csv_file(("route", "mean_price", "max_price"), q4(flights)),
    }


def rejected(path: Path, source: str) -> list[int]:
    """The numbers of the rows that cannot be read."""
    return rejected_of(rows(path, NEEDED[source], KINDS[source], FORMS[source]))


def places(path: Path) -> dict[str, Place]:
    """Where each airport is; the first row of a code counts, whatever else it lacks."""
    found: dict[str, Place] = {}
    for _, row in rows(path, NEEDED["airports"], KINDS["airports"], FORMS["airports"]):
        if row is not None and row["Airport Code"]:
            found.setdefault(row["Airport Code"], _place(row["Latitude"], row["Longitude"]))
    return found


def _place(latitude: str, longitude: str) -> Place:
    if latitude == "" or longitude == "":
        return None
    place = float(latitude), float(longitude)
    return place if abs(place[0]) <= 90 and math.isfinite(place[1]) else None


def every_flight(path: Path) -> list[Flight]:
    """The flights that can be read, in file order."""
    needed = NEEDED["flights"]
    read = rows(path, needed, KINDS["flights"], FORMS["flights"])
    return [Flight(*(row[name] for name in needed)) for _, row in read if row is not None]


def miles(start: tuple[float, float], destination: tuple[float, float]) -> float:
    """The direct distance on the WGS-84 ellipsoid."""
    return float(Geodesic.WGS84.Inverse(*start, *destination)["s12"]) / METRES_OF_A_MILE


def q1(flights: Iterable[Flight], settings: Params) -> Sequence[Cells]:
    """Flights with many stopovers."""
    least = settings.whole("q1.min_stopovers")
    found = [
        (flight.id, flight.route, flight.price, json_list(flight.stopovers))
        for flight in flights
        if flight.id and flight.route and flight.price and flight.has_stopovers(least)
    ]
    return sorted(found, key=_by_id_and_amount)


def _by_id_and_amount(cells: tuple[str, str, str, str | float]) -> tuple[object, ...]:
    """The order of q1 and q2; equal amounts that are written differently come last of all."""
    flight_id, route, amount, last = cells
    return flight_id, number(amount), route, last, amount


def q2(
    airports: Mapping[str, Place], flights: Iterable[Flight], settings: Params
) -> Sequence[Cells]:
    """Flights that are much longer than the direct way."""
    times = settings.exact("q2.times")
    distances: dict[tuple[str, str], float] = {}
    found = []
    for flight in flights:
        start, destination = airports.get(flight.start), airports.get(flight.destination)
        if flight.id == "" or flight.distance == "" or start is None or destination is None:
            continue
        codes = flight.start, flight.destination
        if codes not in distances:
            distances[codes] = miles(start, destination)
        direct = distances[codes]
        if direct != 0 and number(flight.distance) > times * Fraction(direct):
            found.append((flight.id, flight.route, flight.distance, direct))
    return sorted(found, key=_by_id_and_amount)


def q3(flights: Iterable[Flight], settings: Params) -> Sequence[Cells]:
    """The fastest flights with many stopovers of every route."""
    least = settings.whole("q3.min_stopovers")
    by_route: dict[tuple[str, str], list[Flight]] = defaultdict(list)
    for flight in flights:
        complete = flight.id and flight.route and flight.price and flight.duration
        if complete and flight.has_stopovers(least):
            by_route[flight.start, flight.destination].append(flight)
    found = []
    for own in by_route.values():
        own.sort(key=_speed)
        for flight in own[: settings.whole("q3.fastest")]:
            stopovers = json_list(flight.stopovers)
            found.append((flight.route, flight.id, stopovers, flight.duration))
    return sorted(found, key=lambda cells: (cells[0], iso_duration(cells[3]), *cells[1:]))


def _speed(flight: Flight) -> tuple[Fraction, Fraction, str, str, str]:
    duration, price = iso_duration(flight.duration), number(flight.price)
    return duration, price, flight.id, json_list(flight.stopovers), flight.duration


def q4(flights: Iterable[Flight]) -> Sequence[Cells]:
    """Mean and maximum of the prices of every route that are above the mean of all."""
    priced = [(flight, number(flight.price)) for flight in flights if flight.price]
    if not priced:
        return []
    mean_of_all = sum((price for _, price in priced), Fraction(0)) / len(priced)
    by_route: dict[tuple[str, str], list[tuple[Fraction, str]]] = defaultdict(list)
    for flight, price in priced:
        if flight.route and price > mean_of_all:
            by_route[flight.start, flight.destination].append((price, flight.price))
    found = []
    for (start, destination), own in by_route.items():
        mean = rounded(sum((price for price, _ in own), Fraction(0)) / len(own))
        highest = max(price for price, _ in own)
        text = min(text for price, text in own if price == highest)
        found.append((f"{start}-{destination}", mean, text))
    return sorted(found, key=lambda cells: (cells[0], cells[1], number(cells[2]), cells[2]))


def main(arguments: Sequence[str] | None = None) -> None:
    """Write q1.csv to q4.csv into a directory."""
    command("flights", NEEDED, answers, arguments)


if __name__ == "__main__":
    main()
