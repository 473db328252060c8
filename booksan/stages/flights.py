"""The data set `flights`: fares between airports, with their stopovers, distances and durations."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import floor, isfinite
from typing import Any, NamedTuple

import polars as pl

from booksan.heartbeat import beat
from booksan.spec import HOME
from booksan.stages.columns import (
    EXACT,
    USUAL_BOUND,
    exact_sum_of,
    frame_of,
    rounded,
    ten_thousandths,
    threshold,
)
from booksan.stages.graph import Dataset, Keyed, Param, Params, Query, Source, Stage
from booksan.stages.kinds import ColumnType, FieldKind
from booksan.stages.operators import Filter, Histogram, JoinFilter, Leaders, Total, first_rows

METRES_IN_A_MILE = 1609.344

# -- from parsed rows to the stages ----------------------------------------------------------


def route_airports(frame: pl.DataFrame, params: Params) -> Mapping[str, Keyed]:
    """They are few, and each flight needs two of them: every shard gets all."""
    airports = frame.select("row", "Latitude", "Longitude", code="Airport Code")
    known = airports.filter(pl.col("code") != "")
    return {"q2-distance": first_rows(known, "code", None, "Latitude", "Longitude", every=True)}


def route_flights(frame: pl.DataFrame, params: Params) -> Mapping[str, Keyed]:
    flights = frame.select(
        id="legId",
        start="startingAirport",
        destination="destinationAirport",
        duration="travelDuration",
        price="totalFare",
        total_distance="totalTravelDistance",
        segments="segmentsArrivalAirportCode",
    )
    priced = flights.filter(pl.col("price") != "")
    placed = priced.filter(pl.col("start") != "", pl.col("destination") != "").with_columns(
        route=_route()
    )
    # Routes between different airports can look alike: A-B to C, and A to B-C.
    pair = pl.format("{} {}", pl.col("start").str.len_chars(), "route")
    return {
        "q1-filter": Keyed(
            _stopping(placed, params["q1.min_stopovers"]).select(
                "id", "route", "price", "segments"
            ),
            "id",
        ),
        "q2-distance": Keyed(
            flights.filter(
                pl.col("id") != "",
                pl.col("start") != "",
                pl.col("destination") != "",
                pl.col("total_distance") != "",
            ).select("id", "start", "destination", "total_distance"),
            "start",
        ),
        "q3-fastest": Keyed(
            _stopping(placed, params["q3.min_stopovers"])
            .filter(pl.col("duration") != "")
            .select("id", "route", "price", "duration", _stopovers(), pair.alias("pair")),
            "pair",
        ),
        "q4-mean": Keyed(_sum_of(priced["price"])),
        "q4-pick": Keyed(placed.select(key=pair, value="price"), "key"),
    }


def _stopping(flights: pl.DataFrame, least: Any) -> pl.DataFrame:
    """Flights that stop so often on their way: every segment but the last ends in a stopover."""
    stops = pl.col("segments").str.count_matches("||", literal=True)
    return flights.filter(pl.col("id") != "", pl.col("segments") != "", stops >= int(least))


def _route() -> pl.Expr:
    return pl.concat_str("start", "destination", separator="-")


def _stopovers() -> pl.Expr:
    arrivals = pl.col("segments").str.split("||")
    return arrivals.list.head(arrivals.list.len() - 1).alias("stopovers")


def _sum_of(prices: pl.Series) -> pl.DataFrame:
    return pl.DataFrame({"sum": [str(exact_sum_of(prices))], "n": [len(prices)]})


# -- the queries -----------------------------------------------------------------------------

Q1 = {
    "id": ColumnType.TEXT,
    "route": ColumnType.TEXT,
    "price": ColumnType.DECIMAL,
    "stopovers": ColumnType.LIST,
}
Q2 = {
    "id": ColumnType.TEXT,
    "route": ColumnType.TEXT,
    "total_distance": ColumnType.DECIMAL,
    "direct_distance": ColumnType.REAL,
}
Q3 = {
    "route": ColumnType.TEXT,
    "id": ColumnType.TEXT,
    "stopovers": ColumnType.LIST,
    "duration": ColumnType.DURATION,
}
Q4 = {"route": ColumnType.TEXT, "mean_price": ColumnType.REAL, "max_price": ColumnType.DECIMAL}


def with_stopovers(frame: pl.DataFrame, params: Params) -> pl.DataFrame:
    """q1: the flights are chosen already, the rest is to take their stopovers apart."""
    return frame.select("id", "route", "price", _stopovers())


def far_about(
    frame: pl.DataFrame, airports: Mapping[str, list[Any]], params: Params
) -> pl.DataFrame:
    """q2: flights that are much longer than the way between their airports."""
    times = threshold(params["q2.times"])
    pairs = frame.select("start", "destination").unique().rows()
    direct = [miles_between(airports.get(start), airports.get(end)) for start, end in pairs]
    limits = [None if way is None else rounded(times * Fraction(way)) for way in direct]
    ways = pl.DataFrame(
        pairs, dict.fromkeys(("start", "destination"), pl.String), orient="row"
    ).with_columns(
        direct_distance=pl.Series(direct, dtype=pl.Float64),
        limit=pl.Series(limits, dtype=pl.Float64),
    )
    total = pl.col("total_distance").str.strip_chars(" ").cast(pl.Float64, strict=False)
    # A null is a number that polars cannot read. Rounding keeps the order, so that only a number
    # that rounds to the limit must be looked at.
    far = frame.join(ways.drop_nulls(), on=["start", "destination"], how="inner").filter(
        (total >= pl.col("limit")).fill_null(True)
    )
    above = (total > pl.col("limit")).alias("above")
    sure = [
        certain or Fraction(text.strip(" ")) > times * Fraction(way)
        for certain, text, way in far.select(
            above.fill_null(False), "total_distance", "direct_distance"
        ).iter_rows()
    ]
    return far.filter(pl.Series(sure, dtype=pl.Boolean)).select(
        "id",
        "total_distance",
        "direct_distance",
        route=_route(),
    )


def miles_between(one: list[str] | None, other: list[str] | None) -> float | None:
    """None if a place is not known, or if both are the same."""
    if one is None or other is None or "" in (*one, *other):
        return None
    return _miles(*map(float, (*one, *other))) or None


@lru_cache(maxsize=65_536)
def _miles(latitude: float, longitude: float, to_latitude: float, to_longitude: float) -> float:
    from geographiclib.geodesic import Geodesic

    if max(abs(latitude), abs(to_latitude)) > 90 or not all(
        map(isfinite, (longitude, to_longitude))
    ):
        return 0.0
    found = Geodesic.WGS84.Inverse(latitude, longitude, to_latitude, to_longitude)
    return float(found["s12"]) / METRES_IN_A_MILE


class High(NamedTuple):
    """The prices of a route that are above the mean of all."""

    total: Fraction
    n: int
    #: The highest, and the text that it came as.
    top: Fraction
    text: str

    def plus(self, other: "High") -> "High":
        # Of equal prices the smaller text.
        best = min((-self.top, self.text), (-other.top, other.text))
        return High(self.total + other.total, self.n + other.n, -best[0], best[1])


def above_the_mean(prices: pl.DataFrame, _: Params, given: list[Any]) -> Mapping[str, Keyed]:
    """q4: of each route the prices above the mean of all prices."""
    routes: dict[str, High] = {}
    if given:
        mean = Fraction(given[0][0]) / given[0][1]
        amounts = prices.with_columns(amount=ten_thousandths(prices["value"]))
        routes = dict(_usual(amounts, mean))
        for key, high in _odd(amounts.filter(pl.col("amount").is_null()), mean):
            routes[key] = routes[key].plus(high) if key in routes else high
    rows = [
        # The route stands after the length of its first airport.
        (key.partition(" ")[2], rounded(high.total / high.n), high.text)
        for key, high in routes.items()
    ]
    return {HOME: Keyed(frame_of(rows, Q4))}


def _usual(prices: pl.DataFrame, mean: Fraction) -> Iterator[tuple[str, High]]:
    """Usual amounts of money, a column at once."""
    # An integer is above a number if it is above that number rounded down. A mean may be far
    # beyond all usual amounts, and beyond what a column can be compared with.
    limit = min(max(floor(mean * 10_000), -1), USUAL_BOUND)
    high = prices.filter(pl.col("amount") > limit)
    routes = high.group_by("key").agg(
        (pl.col("amount").cast(pl.Int128) * pl.col("n")).sum().alias("total"),
        pl.col("n").sum(),
        pl.col("amount").max().alias("top"),
        pl.col("value").filter(pl.col("amount") == pl.col("amount").max()).min(),
    )
    for key, total, n, top, text in routes.iter_rows():
        yield key, High(Fraction(total, 10_000), n, Fraction(top, 10_000), text)


def _odd(prices: pl.DataFrame, mean: Fraction) -> Iterator[tuple[str, High]]:
    """Such as `48910e-2`, one by one."""
    totals: dict[str, Decimal] = {}
    tops: dict[str, High] = {}
    for key, text, n in prices.select("key", "value", "n").iter_rows():
        # There may be very many, with very many digits.
        beat()
        price = Fraction(text)
        if price > mean:
            # Sums of fractions would be reduced each time, which takes far longer.
            totals[key] = EXACT.fma(Decimal(text), n, totals.get(key, Decimal(0)))
            high = High(Fraction(0), n, price, text)
            tops[key] = tops[key].plus(high) if key in tops else high
    for key, top in tops.items():
        yield key, top._replace(total=Fraction(totals[key]))


# -- the declaration -------------------------------------------------------------------------

DATASET = Dataset(
    name="flights",
    version=2,
    about="fares between airports: stopovers, detours, durations and prices",
    sources=(
        Source(
            "airports",
            needed=("Airport Code", "Latitude", "Longitude"),
            kinds={"Latitude": FieldKind.NUMBER, "Longitude": FieldKind.NUMBER},
            route=route_airports,
            delimiter=b";",
            lacking="\\N",
            file_name="airports-codepublic.csv",
        ),
        Source(
            "flights",
            needed=(
                "legId",
                "startingAirport",
                "destinationAirport",
                "travelDuration",
                "totalFare",
                "totalTravelDistance",
                "segmentsArrivalAirportCode",
            ),
            kinds={
                "travelDuration": FieldKind.ISO_DURATION,
                "totalFare": FieldKind.NUMBER,
                "totalTravelDistance": FieldKind.NUMBER,
            },
            route=route_flights,
            file_name="itineraries.csv",
        ),
    ),
    stages=(
        Stage("q1-filter", ("flights",), Filter(with_stopovers), key="flight"),
        Stage(
            "q2-distance",
            ("airports", "flights"),
            JoinFilter(far_about, Q2, earlier="airports", keep=("Latitude", "Longitude")),
            joins=("airports",),
            key="start",
        ),
        Stage(
            "q3-fastest",
            ("flights",),
            Leaders(
                "q3.fastest",
                "pair",
                {**Q3, "price": ColumnType.DECIMAL, "pair": ColumnType.TEXT},
                ("duration", "price", "id", "stopovers"),
            ),
            key="route",
        ),
        Stage("q4-mean", ("flights",), Total("q4-pick"), keyed=False),
        Stage(
            "q4-pick",
            ("flights", "q4-mean"),
            Histogram(above_the_mean, given="q4-mean"),
            key="route",
        ),
    ),
    queries=(
        Query(
            "q1",
            "q1-filter",
            Q1,
            ("id", "price"),
            "flights with %(q1.min_stopovers)s stopovers or more",
        ),
        Query(
            "q2",
            "q2-distance",
            Q2,
            ("id", "total_distance"),
            "flights longer than %(q2.times)g times the way between their airports",
        ),
        Query(
            "q3",
            "q3-fastest",
            Q3,
            ("route", "duration"),
            "for every route the %(q3.fastest)s fastest flights with %(q3.min_stopovers)s "
            "stopovers or more",
        ),
        Query(
            "q4",
            "q4-pick",
            Q4,
            ("route",),
            "for every route mean and maximum of the prices above the mean of all",
        ),
    ),
    params=(
        Param("q1.min_stopovers", 3, "stopovers that a flight needs", 0, 10**9),
        Param("q2.times", 4.0, "how many times the direct distance", 0, 10**9),
        Param("q3.min_stopovers", 3, "stopovers that a flight needs", 0, 10**9),
        Param("q3.fastest", 2, "how many of each route", 0, 10**9),
    ),
)
