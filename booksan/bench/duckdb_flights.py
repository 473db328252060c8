"""The four flight queries with DuckDB.

The flights are read once, with the seven columns that matter, and all queries are SQL over them.
Distances between airports are worked out in Python, once for each route.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from booksan.bench.baseline import (
    DIALECT,
    PLACES,
    Baseline,
    Row,
    Size,
    connect,
    cut,
    fetch,
    forget_order,
    parse_arguments,
    write_answers,
)

if TYPE_CHECKING:
    import duckdb

BASELINE = Baseline("DuckDB", needs=("duckdb",))
#: At most as many airports as the public file has.
SIZE = Size(rows=1_000_000, first_rows=lambda rows: max(100, min(9_187, rows // 10)))

HEADERS = {
    "q1": ("id", "route", "price", "stopovers"),
    "q2": ("id", "route", "total_distance", "direct_distance"),
    "q3": ("route", "id", "stopovers", "duration"),
    "q4": ("route", "mean_price", "max_price"),
}

METRES_IN_A_MILE = 1609.344

Place = tuple[float, float]


@dataclass(frozen=True)
class Parameters:
    q1_min_stopovers: int = 3
    q2_times: float = 4.0
    q3_min_stopovers: int = 3
    q3_fastest: int = 2


AIRPORTS = rf"""
SELECT "Airport Code", "Latitude", "Longitude"
FROM read_csv(?, delim = ';', header = true, nullstr = ['', '\N'], {DIALECT})
WHERE "Airport Code" IS NOT NULL
"""

FLIGHTS = f"""
CREATE TABLE flights AS
SELECT "legId" AS id, "startingAirport" AS start, "destinationAirport" AS destination,
       "travelDuration" AS duration, "totalFare" AS price,
       CAST("totalFare" AS DECIMAL(18, {PLACES})) AS fare,
       "totalTravelDistance" AS total_distance, "segmentsArrivalAirportCode" AS segments
FROM read_csv(?, delim = ',', header = true, {DIALECT})
"""

ROUTE = "start || '-' || destination"
KNOWN = "start IS NOT NULL AND destination IS NOT NULL"

# Lists as they are written, so that they are sorted as such.
STOPPING = f"""
CREATE TABLE stopping AS
SELECT id, start, destination, {ROUTE} AS route, duration, price, fare, len(arrivals) - 1 AS stops,
       '[' || array_to_string([to_json(each) FOR each IN arrivals[:-2]], ', ') || ']' AS stopovers
FROM (SELECT *, string_split(segments, '||') AS arrivals FROM flights
      WHERE (length(segments) - length(replace(segments, '||', ''))) // 2 >= ?)
WHERE id IS NOT NULL AND {KNOWN} AND price IS NOT NULL
"""

Q1 = """
SELECT id, route, price, stopovers FROM stopping WHERE stops >= ?
ORDER BY id, fare, route, stopovers, price
"""

ROUTES = f"SELECT DISTINCT start, destination FROM flights WHERE {KNOWN}"

DIRECT = f"""
CREATE TABLE direct AS
SELECT unnest(CAST(? AS VARCHAR[])) AS start, unnest(CAST(? AS VARCHAR[])) AS destination,
       unnest(CAST(? AS DOUBLE[])) AS direct_distance,
       unnest(CAST(? AS DECIMAL(18, {PLACES})[])) AS most
"""

Q2 = f"""
SELECT id, {ROUTE} AS route, total_distance, direct_distance
FROM (SELECT *, CAST(total_distance AS DECIMAL(18, {PLACES})) AS total
      FROM flights JOIN direct USING (start, destination))
WHERE total > most AND id IS NOT NULL
ORDER BY id, total, route, direct_distance, total_distance
"""


def part(unit: str) -> str:
    return f"coalesce(CAST(nullif(regexp_extract(duration, '([0-9]+){unit}', 1), '') AS BIGINT), 0)"


SECONDS = f"""(
    604800 * {part("W")} + 86400 * {part("D")} + 3600 * {part("H")} + 60 * {part("M")}
    + coalesce(CAST(nullif(regexp_extract(duration, '([0-9.]+)S', 1), '')
                    AS DECIMAL(18, {PLACES})), 0))"""

Q3 = f"""
SELECT route, id, stopovers, duration
FROM (SELECT *, {SECONDS} AS seconds FROM stopping WHERE stops >= ? AND duration IS NOT NULL)
QUALIFY row_number() OVER (
    PARTITION BY start, destination ORDER BY seconds, fare, id, stopovers, duration) <= ?
ORDER BY route, seconds, id, stopovers, duration
"""

MEAN = "SELECT sum(fare), count(fare) FROM flights"

Q4 = f"""
WITH high AS (SELECT * FROM flights WHERE fare > ? AND {KNOWN}),
     found AS (SELECT start, destination, sum(fare) AS total, count(*) AS number, max(fare) AS top
               FROM high GROUP BY start, destination)
SELECT {ROUTE} AS route, any_value(total), any_value(number), min(price)
FROM high JOIN found USING (start, destination) WHERE fare = top
GROUP BY start, destination ORDER BY route
"""


def places_of(database: "duckdb.DuckDBPyConnection", airports: Path) -> dict[str, Place | None]:
    """The first row of an airport counts, even if it does not say where it is."""
    places: dict[str, Place | None] = {}
    for code, latitude, longitude in fetch(database, AIRPORTS, str(airports)):
        known = None not in (latitude, longitude) and abs(float(latitude)) <= 90
        places.setdefault(code, (float(latitude), float(longitude)) if known else None)
    return places


def miles(start: Place, destination: Place) -> float:
    from geographiclib.geodesic import Geodesic

    found = Geodesic.WGS84.Inverse(*start, *destination)
    return float(found["s12"]) / METRES_IN_A_MILE


def measure_routes(
    database: "duckdb.DuckDBPyConnection", places: dict[str, Place | None], times: Fraction
) -> None:
    found = []
    for start, destination in fetch(database, ROUTES):
        one, other = places.get(start), places.get(destination)
        direct = miles(one, other) if one and other else 0.0
        if direct:
            found.append((start, destination, direct, cut(times * Fraction(direct))))
    columns = [[row[i] for row in found] for i in range(4)]
    database.execute(DIRECT, columns)


def expensive(database: "duckdb.DuckDBPyConnection") -> Iterator[Row]:
    total, number = fetch(database, MEAN)[0]
    if not number:
        return
    for route, prices, count, top in fetch(database, Q4, cut(Fraction(total) / number)):
        yield route, float(Fraction(prices) / count), top


def main() -> None:
    given = parse_arguments(__doc__, Parameters, ("airports", "flights"))
    wanted = given.parameters
    airports, flights = given.files
    with connect() as database:
        places = places_of(database, airports)
        forget_order(database)
        database.execute(FLIGHTS, [str(flights)])
        least = min(wanted.q1_min_stopovers, wanted.q3_min_stopovers)
        database.execute(STOPPING, [least])
        measure_routes(database, places, Fraction(repr(wanted.q2_times)))
        answers = {
            "q1": fetch(database, Q1, wanted.q1_min_stopovers),
            "q2": fetch(database, Q2),
            "q3": fetch(database, Q3, wanted.q3_min_stopovers, wanted.q3_fastest),
            "q4": expensive(database),
        }
        write_answers(given.out, HEADERS, answers)


if __name__ == "__main__":
    main()
