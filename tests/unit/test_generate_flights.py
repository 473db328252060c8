import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

from booksan.errors import UsageError
from booksan.generate import generator
from booksan.generate.airports import BUSY, miles
from booksan.generate.flights import GENERATOR, iso_duration
from tests.unit.reading import DURATIONS, ISO, NUMBER, NUMBERS, Row, check_dirty, digest, read_clean

AIRPORT_COLUMNS = [
    *("Airport Code", "Airport Name", "City Name", "Country Name", "Country Code", "Latitude"),
    *("Longitude", "World Area Code", "City Name geo_name_id", "Country Name geo_name_id"),
    "coordinates",
]
FLIGHT_COLUMNS = [
    *("legId", "searchDate", "flightDate", "startingAirport", "destinationAirport"),
    *("fareBasisCode", "travelDuration", "elapsedDays", "isBasicEconomy", "isRefundable"),
    *("isNonStop", "baseFare", "totalFare", "seatsRemaining", "totalTravelDistance"),
    *("segmentsDepartureTimeEpochSeconds", "segmentsDepartureTimeRaw"),
    *("segmentsArrivalTimeEpochSeconds", "segmentsArrivalTimeRaw", "segmentsArrivalAirportCode"),
    *("segmentsDepartureAirportCode", "segmentsAirlineName", "segmentsAirlineCode"),
    *("segmentsEquipmentDescription", "segmentsDurationInSeconds", "segmentsDistance"),
    "segmentsCabinCode",
]
PLACES = {"Latitude": NUMBERS, "Longitude": NUMBERS}
NUMBERS_AND_DURATIONS = {
    "totalFare": NUMBERS,
    "totalTravelDistance": NUMBERS,
    "travelDuration": DURATIONS,
}


class Data(NamedTuple):
    """A clean data set, read back."""

    airports: list[Row]
    flights: list[Row]

    def by_code(self) -> dict[str, Row]:
        first: dict[str, Row] = {}
        for airport in self.airports:
            first.setdefault(airport["Airport Code"], airport)
        return first


def stops(flight: Row) -> int:
    return flight["segmentsArrivalAirportCode"].count("||")


def route(flight: Row) -> tuple[str, str]:
    return flight["startingAirport"], flight["destinationAirport"]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Data:
    airports, flights = GENERATOR.generate(
        tmp_path_factory.mktemp("large"), rows=40_000, seed=1
    ).paths
    return Data(read_clean(airports, ";"), read_clean(flights))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Data:
    airports, flights = GENERATOR.generate(
        tmp_path_factory.mktemp("small"), rows=1000, seed=1
    ).paths
    return Data(read_clean(airports, ";"), read_clean(flights))


@pytest.mark.parametrize("dirty", [False, True])
def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, dirty: bool) -> None:
    first = GENERATOR.generate(tmp_path / "a", rows=1500, seed=5, dirty=dirty)
    again = GENERATOR.generate(tmp_path / "b", rows=1500, seed=5, dirty=dirty)
    other = GENERATOR.generate(tmp_path / "c", rows=1500, seed=6, dirty=dirty)
    assert digest(first) == digest(again)
    for one, two in zip(first.paths, other.paths, strict=True):
        assert one.read_bytes() != two.read_bytes()


def test_the_bytes_are_the_same_on_every_machine_and_version(tmp_path: Path) -> None:
    made = GENERATOR.generate(tmp_path, rows=1500, seed=5, dirty=True)
    assert digest(made) == "d2e6be720e70041f9ed94878a58cb791c8a372c446c2b4988a84e17f9bead6db"


def test_files_have_the_columns_of_the_public_ones(large: Data) -> None:
    assert list(large.airports[0]) == AIRPORT_COLUMNS
    assert list(large.flights[0]) == FLIGHT_COLUMNS
    assert (len(large.airports), len(large.flights)) == (4000, 40_000)


def test_airports_begin_with_a_bom_and_are_cut_at_semicolons(tmp_path: Path) -> None:
    made = GENERATOR.generate(tmp_path, rows=10, seed=1)
    assert tuple(path.name for path in made.paths) == GENERATOR.files
    content = made.first.path.read_bytes()
    assert content.startswith(b"\xef\xbb\xbfAirport Code;Airport Name;")
    assert content.endswith(b"\r\n")


@pytest.mark.parametrize(("airports", "rows"), [(0, 0), (3, 40), (50, 0), (20_000, 1)])
def test_any_numbers_will_do(tmp_path: Path, airports: int, rows: int) -> None:
    made = GENERATOR.generate(tmp_path, rows=rows, first_rows=airports, seed=3)
    found = Data(read_clean(made.first.path, ";"), read_clean(made.second.path))
    assert (len(found.airports), len(found.flights)) == (airports, rows)
    assert [each.rows for each in made.written] == [airports, rows]
    assert made.bytes == sum(path.stat().st_size for path in made.paths)


def test_negative_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="-1"):
        GENERATOR.generate(tmp_path / "none", rows=-1, seed=1)
    assert not (tmp_path / "none").exists()


def test_a_row_has_about_370_bytes(tmp_path: Path) -> None:
    made = GENERATOR.generate(tmp_path, rows=5000, seed=2)
    assert made.second.bytes / made.second.rows == pytest.approx(370, rel=0.02)


# Proportions.


def test_shares_are_those_of_the_public_data(large: Data) -> None:
    share = {count: number / 40_000 for count, number in Counter(map(stops, large.flights)).items()}
    assert share[0] == pytest.approx(0.29, abs=0.02)
    assert share[1] == pytest.approx(0.63, abs=0.02)
    assert sum(each for count, each in share.items() if count >= 3) == pytest.approx(
        0.004, abs=0.001
    )
    assert sum(not each["totalTravelDistance"] for each in large.flights) / 40_000 == pytest.approx(
        0.075, abs=0.01
    )
    fares = sorted(float(each["totalFare"]) for each in large.flights if each["totalFare"])
    assert sum(fares) / len(fares) == pytest.approx(383, rel=0.06)
    assert fares[len(fares) // 2] == pytest.approx(352, rel=0.05)


def test_sixteen_airports_have_240_routes(large: Data) -> None:
    counts = Counter(map(route, large.flights))
    busy = {each.code for each in BUSY}
    usual = {pair: count for pair, count in counts.items() if set(pair) <= busy}
    assert len(usual) == 240
    assert sum(usual.values()) / 40_000 > 0.99


def test_fares_repeat_as_in_the_public_data(large: Data) -> None:
    some = large.flights[:4797]
    assert 4200 < len({(route(each), each["totalFare"]) for each in some}) < 4550


def test_segments_add_up(large: Data) -> None:
    for flight in large.flights[::50]:
        times = [flight[f"segments{end}TimeEpochSeconds"] for end in ("Departure", "Arrival")]
        cleanup, arrivals = ([int(time) for time in each.split("||")] for each in times)
        length = arrivals[-1] - cleanup[0]
        if flight["travelDuration"] == iso_duration(length // 60):
            lengths = [b - a for a, b in zip(cleanup, arrivals, strict=True)]
            assert "||".join(map(str, lengths)) == flight["segmentsDurationInSeconds"]
        distances = flight["segmentsDistance"].split("||")
        if flight["totalTravelDistance"].isdigit():
            assert sum(map(int, distances)) == int(flight["totalTravelDistance"])
        for raw in (flight["segmentsDepartureTimeRaw"], flight["segmentsArrivalTimeRaw"]):
            assert re.fullmatch(r"(2022-\d\d-\d\dT\d\d:\d\d:00\.000-0\d:00(\|\||\Z))+", raw)
        assert flight["searchDate"] < flight["flightDate"]


@pytest.mark.parametrize(
    ("minutes", "text"),
    [(448, "PT7H28M"), (1560, "P1DT2H"), (58, "PT58M"), (2880, "P2D"), (480, "PT8H")],
)
def test_durations_are_written_as_in_iso_8601(minutes: int, text: str) -> None:
    assert iso_duration(minutes) == text


# Warts.


@pytest.mark.parametrize(
    ("column", "pattern"),
    [
        *((name, r"\A\Z") for name in ("legId", "startingAirport", "totalFare", "travelDuration")),
        *((name, r"\A\Z") for name in ("totalTravelDistance", "segmentsArrivalAirportCode")),
        *(("totalFare", pattern) for pattern in (r"\A\d+\.\d\d\Z", r"\A | \Z", "[eE]-", r"\A\+")),
        *(("travelDuration", pattern) for pattern in (r"\AP1DT\d+H\d+M", r"\APT\d+M\Z", "H\\Z")),
        *(("segmentsEquipmentDescription", pattern) for pattern in (", ", '"', "\n", r"\|\|\|\|")),
        ("segmentsDistance", "None"),
        ("segmentsAirlineName", r"\|\|"),
        ("elapsedDays", "1"),
    ],
)
def test_warts_are_there(large: Data, column: str, pattern: str) -> None:
    found = sum(bool(re.search(pattern, flight[column])) for flight in large.flights)
    assert 0 < found < len(large.flights)


def test_airports_lack_values_and_have_names_in_many_letters(large: Data) -> None:
    assert any(each["Latitude"] == "\\N" for each in large.airports)
    assert any(each["Latitude"] == "" for each in large.airports)
    assert any(each["City Name geo_name_id"] == "\\N" for each in large.airports)
    names = "|".join(each["Airport Name"] for each in large.airports)
    assert re.search(";", names)
    assert re.search("\n", names)
    assert re.search("[à-ÿ]", names)


def test_an_id_comes_on_several_search_dates(small: Data, large: Data) -> None:
    for data in (small, large):
        dates: defaultdict[str, set[str]] = defaultdict(set)
        for flight in data.flights:
            dates[flight["legId"]].add(flight["searchDate"])
        assert sum(len(each) > 1 for key, each in dates.items() if key) >= 5


def test_codes_come_twice_and_the_places_differ(small: Data, large: Data) -> None:
    for data in (small, large):
        first = data.by_code()
        again = [each for each in data.airports if first[each["Airport Code"]] is not each]
        assert again
        assert all(each["Latitude"] != first[each["Airport Code"]]["Latitude"] for each in again)
        # One of them has a place only in its second row.
        assert any(first[each["Airport Code"]]["Latitude"] == "\\N" for each in again)


def test_some_airports_are_unknown_or_at_the_same_place(large: Data) -> None:
    known = large.by_code()
    assert {each.code for each in BUSY} <= set(known)
    ends = {end for flight in large.flights for end in route(flight) if end}
    assert ends - set(known)
    assert any(known[end]["Latitude"] == "\\N" for end in ends & set(known))
    same = [
        pair for pair in map(route, large.flights)
        if pair[0] != pair[1] and all(end in known for end in pair)
        and known[pair[0]]["coordinates"] == known[pair[1]]["coordinates"]
    ]  # fmt: skip
    assert same


def test_every_value_that_is_there_can_be_read(large: Data) -> None:
    for flight in large.flights:
        assert not flight["travelDuration"] or ISO.fullmatch(flight["travelDuration"])
        for name in ("totalFare", "totalTravelDistance"):
            assert not flight[name] or NUMBER.fullmatch(flight[name])


# Every query has something to find.


def test_every_query_hits_with_its_defaults(large: Data) -> None:
    long = [flight for flight in large.flights if stops(flight) >= 3 and flight["totalFare"]]
    assert len(long) > 100
    assert max(Counter(map(route, long)).values()) > 2
    places = {each.code: each for each in BUSY}
    detours = [
        float(flight["totalTravelDistance"]) / miles(*(places[end] for end in route(flight)))
        for flight in large.flights
        if flight["totalTravelDistance"] and set(route(flight)) <= set(places)
        and flight["startingAirport"] != flight["destinationAirport"]
    ]  # fmt: skip
    assert sum(each > 4 for each in detours) / len(detours) == pytest.approx(0.055, abs=0.015)
    prices = [float(flight["totalFare"]) for flight in large.flights if flight["totalFare"]]
    mean = sum(prices) / len(prices)
    assert 0.3 < sum(price > mean for price in prices) / len(prices) < 0.5


# Dirty files.


@pytest.mark.parametrize(("seed", "rows"), [(4, 3000), (1, 220), (2, 90)])
def test_a_dirty_file_holds_the_clean_rows_and_the_named_bad_ones(
    tmp_path: Path, seed: int, rows: int
) -> None:
    clean = GENERATOR.generate(tmp_path / "clean", rows=rows, first_rows=rows // 2, seed=seed)
    dirty = GENERATOR.generate(
        tmp_path / "dirty", rows=rows, first_rows=rows // 2, seed=seed, dirty=True
    )
    check_dirty(clean.first, dirty.first, PLACES, ";")
    check_dirty(clean.second, dirty.second, NUMBERS_AND_DURATIONS)
    if rows >= 3000:
        both = {
            generator.TOO_FEW,
            generator.TOO_MANY,
            generator.AFTER_QUOTE,
            generator.NOT_UTF8,
            generator.NUL,
        }
        both |= {generator.NOT_A_NUMBER, generator.UNTERMINATED}
        assert set(dirty.first.bad) == both
        assert set(dirty.second.bad) == both | {generator.NO_DURATION, generator.TOO_LONG}
