"""The answers of flights, worked out by hand."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from tests.oracle import flights as oracle
from tests.oracle.reader import rows
from tests.support.oracle_rows import Asked, real_sample, written
from tests.support.real_rows import NO_REAL_ROWS

AIRPORTS = "\ufeffAirport Code;Latitude;Longitude;coordinates"
FLIGHTS = (
    "legId,startingAirport,destinationAirport,travelDuration,totalFare,totalTravelDistance,"
    "segmentsArrivalAirportCode"
)


@pytest.fixture
def answer(tmp_path: Path) -> Asked:
    return Asked(tmp_path, (AIRPORTS, FLIGHTS), oracle.answers)


def test_every_answer_has_its_header_line_also_when_it_is_empty(tmp_path: Path) -> None:
    airports = written(tmp_path / "airports.csv", AIRPORTS, [])
    flights = written(tmp_path / "flights.csv", FLIGHTS, [])
    assert oracle.answers(airports, flights) == {
        "q1": b"id,route,price,stopovers\n",
        "q2": b"id,route,total_distance,direct_distance\n",
        "q3": b"route,id,stopovers,duration\n",
        "q4": b"route,mean_price,max_price\n",
    }


def test_bad_fields_of_flights_are_rejected_and_lacking_ones_are_not(tmp_path: Path) -> None:
    flights = [
        "a,X,Y,PT1H,1,1,Y",
        ",,,,,,",
        "c,X,Y,1H,1,1,Y",
        "d,X,Y,PT1H,one,1,Y",
        "e,X,Y,PT1H,1,many,Y",
        "f,X,Y,PT1H,1,1",
        r"g,X,Y,PT1H,1,\N,Y",
        "h,X,Y, PT1H,1,1,Y",
        "i,X,Y,PT1H, 1 , 1 ,Y",
    ]
    path = written(tmp_path / "flights.csv", FLIGHTS, flights)
    assert oracle.rejected(path, "flights") == [3, 4, 5, 6, 7, 8]


def test_bad_fields_of_airports_are_rejected_and_lacking_ones_are_not(tmp_path: Path) -> None:
    airports = [
        "A;1;2;1, 2",
        r"\N;\N;\N;\N",
        ";;;",
        "D;north;2;",
        "E;1;2°;",
        "F,1,2,",
        "G;91;2;",
    ]
    path = written(tmp_path / "airports.csv", AIRPORTS, airports)
    assert oracle.rejected(path, "airports") == [4, 5, 6]


# q1


def test_q1_takes_three_stopovers_and_more(answer: Asked) -> None:
    flights = [
        "four,A,E,PT9H,100.50,,B||C||D||X||E",
        "three,A,E,PT9H,100,,B||C||Ö||E",
        "two,A,E,PT9H,100,,B||C||E",
        "none,A,E,PT9H,100,,E",
        "lacking,A,E,PT9H,100,,",
    ]
    expected = 'four,A-E,100.50,"[""B"", ""C"", ""D"", ""X""]"\n'
    expected += 'three,A-E,100,"[""B"", ""C"", ""Ö""]"\n'
    assert answer("q1", [], flights) == expected


def test_q1_takes_its_parameter(answer: Asked) -> None:
    flights = ["one,A,C,,1,,B||C", "none,A,C,,1,,C", "lacking,A,C,,1,,"]
    assert answer("q1", [], flights, q1_min_stopovers=1) == 'one,A-C,1,"[""B""]"\n'
    expected = 'none,A-C,1,[]\none,A-C,1,"[""B""]"\n'
    assert answer("q1", [], flights, q1_min_stopovers=0) == expected


def test_q1_skips_flights_without_id_airport_or_price(answer: Asked) -> None:
    flights = [
        ",A,E,PT1H,1,1,B||C||D||E",
        "a,,E,PT1H,1,1,B||C||D||E",
        "b,A,,PT1H,1,1,B||C||D||E",
        "c,A,E,PT1H,,1,B||C||D||E",
        "d,A,E,,1,,B||C||D||E",
    ]
    assert answer("q1", [], flights) == 'd,A-E,1,"[""B"", ""C"", ""D""]"\n'


def test_q1_sorts_prices_by_value_and_equal_ones_by_text_last_of_all(answer: Asked) -> None:
    flights = [
        "a,A,C,,10,,B||C",
        "a,A,C,,9.50,,B||C",
        "a,A,C,,9.5,,C||C",
        "a,A,C,,9.5,,B||C",
        "a,A,B,,9.500,,Z||B",
        "a,A,C,, 9.5,,B||C",
        "B,A,C,,99,,B||C",
        "a,A,C,,1e1,,B||C",
        "a,A,C,,10,,B||C",
    ]
    assert answer("q1", [], flights, q1_min_stopovers=1) == (
        'B,A-C,99,"[""B""]"\n'
        'a,A-B,9.500,"[""Z""]"\n'
        'a,A-C, 9.5,"[""B""]"\n'
        'a,A-C,9.5,"[""B""]"\n'
        'a,A-C,9.50,"[""B""]"\n'
        'a,A-C,9.5,"[""C""]"\n'
        'a,A-C,10,"[""B""]"\n'
        'a,A-C,10,"[""B""]"\n'
        'a,A-C,1e1,"[""B""]"\n'
    )


#: A tenth and a little more: the same float, and in the other order as texts.
TENTH, MORE = "1e-1", "0.10000000000000000001"


def test_q1_sorts_prices_exactly(answer: Asked) -> None:
    flights = [f"a,A,C,,{MORE},,B||C", f"a,A,C,,{TENTH},,B||C"]
    expected = f'a,A-C,{TENTH},"[""B""]"\na,A-C,{MORE},"[""B""]"\n'
    assert answer("q1", [], flights, q1_min_stopovers=1) == expected


def test_q1_sorts_stopovers_by_the_written_list(answer: Asked) -> None:
    # In JSON the names end with a quote, which comes after "!".
    flights = ["a,A,C,,1,,B||C", "a,A,C,,1,,B!||C"]
    expected = 'a,A-C,1,"[""B!""]"\na,A-C,1,"[""B""]"\n'
    assert answer("q1", [], flights, q1_min_stopovers=1) == expected


# q2

#: One degree of the equator is 6378137 * pi / 180 metres, and that by 1609.344 are miles.
DEGREE = 69.17072471346931
EQUATOR = ["A;0;0;", "B;0;1;", "C;0.0;1e0;"]


def test_a_degree_of_the_equator_and_the_example_of_the_library_are_as_long_as_known() -> None:
    assert oracle.miles((0.0, 0.0), (0.0, 1.0)) == DEGREE
    assert pytest.approx(6378137 * 3.141592653589793 / 180 / 1609.344, rel=1e-14) == DEGREE
    # Wellington to Salamanca, 19959679.267 m in the documentation of GeographicLib.
    far = oracle.miles((-41.32, 174.81), (40.96, -5.50))
    assert far * 1609.344 == pytest.approx(19959679.267, abs=0.001)


def test_q2_takes_flights_of_more_than_four_times_the_direct_way(answer: Asked) -> None:
    # Four degrees are 276.68 miles.
    flights = ["a,A,B,,,276,", "b,A,B,,,277,", "c,B,A,,, 2.77e2 ,", "d,A,B,,,,"]
    assert answer("q2", EQUATOR, flights) == f"b,A-B,277,{DEGREE}\nc,B-A, 2.77e2 ,{DEGREE}\n"
    assert answer("q2", EQUATOR, flights, q2_times="4.1") == ""


def test_q2_compares_exactly(answer: Asked) -> None:
    # As a float both would be the distance itself.
    equal = Decimal(DEGREE)
    more = f"{equal}01"
    flights = [f"a,A,B,,,{equal},", f"b,A,B,,,{more},"]
    assert answer("q2", EQUATOR, flights, q2_times=1) == f"b,A-B,{more},{DEGREE}\n"
    # 0.1 is a tenth, and not the float next to it.
    flights = [f"a,A,B,,,{equal}e-1,", f"b,A,B,,,{more}e-1,"]
    assert answer("q2", EQUATOR, flights, q2_times=0.1) == f"b,A-B,{more}e-1,{DEGREE}\n"


def test_q2_skips_unknown_airports_and_a_direct_way_of_nothing(answer: Asked) -> None:
    airports = [*EQUATOR, "L;;0;", r"M;0;\N;", "N;90.1;0;", "O;-91;0;", "P;0;1e400;"]
    flights = [f"{code},A,{code},,,999999,Z" for code in "ALMNOPQ"]
    flights += [f"{code},{code},A,,,999999,Z" for code in "LMNOPQ"]
    flights += ["same,B,C,,,999999,Z", "a,,A,,,999999,Z", "b,A,,,,999999,Z", ",A,B,,,999999,Z"]
    assert answer("q2", airports, flights) == ""


def test_q2_knows_the_poles(answer: Asked) -> None:
    airports = ["A;0;0;", "N;90;0;", "S;-90.0;0;"]
    found = answer("q2", airports, ["a,A,N,,,99999,", "b,S,A,,,99999,"])
    # A quarter of a meridian is 10001965.729 m.
    assert [line.split(",")[-1][:9] for line in found.splitlines()] == ["6214.9333", "6214.9333"]


def test_q2_needs_neither_price_nor_duration_nor_segments(answer: Asked) -> None:
    assert answer("q2", EQUATOR, ["a,A,B,,,999,"]) == f"a,A-B,999,{DEGREE}\n"


def test_q2_takes_the_first_airport_of_a_code_whatever_it_lacks(answer: Asked) -> None:
    airports = ["A;0;0;", "B;0;1;", "B;0;2;", r"C;\N;0;", "C;0;1;", "D;bad;0;", "D;0;1;"]
    flights = [f"{code},A,{code},,,9999," for code in "BCD"]
    assert answer("q2", airports, flights) == f"B,A-B,9999,{DEGREE}\nD,A-D,9999,{DEGREE}\n"


def test_q2_compares_airports_exactly(answer: Asked) -> None:
    flights = ["a,a,B,,,9999,", "b, A,B,,,9999,", "c,A,B ,,,9999,"]
    assert answer("q2", EQUATOR, flights) == ""


def test_q2_sorts_by_id_and_distance_by_value(answer: Asked) -> None:
    flights = ["a,A,B,,,1000.0,", "a,A,B,,,1000,", "a,A,B,,,999,", "a,A,C,,,1e3,", "Z,A,B,,,9999,"]
    assert answer("q2", EQUATOR, flights) == "".join(
        f"{cells},{DEGREE}\n"
        for cells in ("Z,A-B,9999", "a,A-B,999", "a,A-B,1000", "a,A-B,1000.0", "a,A-C,1e3")
    )


# q3


def test_q3_takes_the_two_fastest_of_each_route(answer: Asked) -> None:
    flights = [
        "a,A,E,P1DT2H,1,,B||C||D||E",
        "b,A,E,PT25H59M,1,,B||C||D||E",
        "c,A,E,PT9H,1,,B||C||D||E",
        "d,A,E,PT1H,1,,B||C||E",
        "e,E,A,P1W,1,,B||C||D||A",
    ]
    stopovers = '"[""B"", ""C"", ""D""]"'
    expected = f"A-E,c,{stopovers},PT9H\nA-E,b,{stopovers},PT25H59M\nE-A,e,{stopovers},P1W\n"
    assert answer("q3", [], flights) == expected


def test_q3_takes_its_parameters(answer: Asked) -> None:
    flights = ["a,A,C,PT2H,1,,B||C", "b,A,C,PT1H,1,,B||C", "c,A,C,PT1H,1,,C"]
    found = answer("q3", [], flights, q3_min_stopovers=1, q3_fastest=1)
    assert found == 'A-C,b,"[""B""]",PT1H\n'


def test_q3_breaks_ties_by_price_by_value_then_id(answer: Asked) -> None:
    flights = [
        "a,A,C,PT60M,10,,B||C",
        "b,A,C,PT1H,9.50,,B||C",
        "d,A,C,PT3600S,9.5,,B||C",
        "c,A,C,PT60M,9.5,,B||C",
    ]
    found = answer("q3", [], flights, q3_min_stopovers=1)
    assert found == 'A-C,b,"[""B""]",PT1H\nA-C,c,"[""B""]",PT60M\n'
    third = answer("q3", [], flights, q3_min_stopovers=1, q3_fastest=3)
    assert third == found + 'A-C,d,"[""B""]",PT3600S\n'


def test_q3_compares_prices_exactly(answer: Asked) -> None:
    flights = [f"a,A,C,PT1H,{MORE},,B||C", f"b,A,C,PT1H,{TENTH},,B||C"]
    found = answer("q3", [], flights, q3_min_stopovers=1, q3_fastest=1)
    assert found == 'A-C,b,"[""B""]",PT1H\n'


def test_q3_picks_equal_flights_by_stopovers_then_by_the_written_duration(answer: Asked) -> None:
    flights = ["a,A,C,PT60M,1,,B||C", "a,A,C,PT1H,1.0,,C||C", "a,A,C,PT1H,1,,B||C"]
    picked = answer("q3", [], flights, q3_min_stopovers=1)
    assert picked == 'A-C,a,"[""B""]",PT1H\nA-C,a,"[""B""]",PT60M\n'
    one = answer("q3", [], flights, q3_min_stopovers=1, q3_fastest=1)
    assert one == 'A-C,a,"[""B""]",PT1H\n'


def test_q3_writes_by_route_and_duration_then_id_not_price(answer: Asked) -> None:
    flights = ["b,A,C,PT1H,1,,B||C", "a,A,C,PT60M,2,,B||C", "c,A,C,PT1H,3,,B||C"]
    found = answer("q3", [], flights, q3_min_stopovers=1)
    assert found == 'A-C,a,"[""B""]",PT60M\nA-C,b,"[""B""]",PT1H\n'


def test_q3_counts_every_row_as_a_flight_of_its_own(answer: Asked) -> None:
    flights = ["a,A,C,PT1H,1,,B||C"] * 2 + ["b,A,C,PT2H,1,,B||C"]
    found = answer("q3", [], flights, q3_min_stopovers=1)
    assert found == 'A-C,a,"[""B""]",PT1H\n' * 2


def test_q3_skips_flights_that_lack_what_it_needs(answer: Asked) -> None:
    flights = [
        ",A,C,PT1H,1,1,B||C",
        "a,,C,PT1H,1,1,B||C",
        "b,A,,PT1H,1,1,B||C",
        "c,A,C,,1,1,B||C",
        "d,A,C,PT1H,,1,B||C",
        "e,A,C,PT1H,1,1,",
        "f,A,C,PT9H,9,,B||C",
    ]
    found = answer("q3", [], flights, q3_min_stopovers=1)
    assert found == 'A-C,f,"[""B""]",PT9H\n'


# q4


def test_q4_takes_the_prices_above_the_mean_of_all(answer: Asked) -> None:
    # All together are 60, the mean is 10, and the price of 10 is not above it.
    prices = ["A,B,,1", "A,B,,10", "A,B,,10.5", "A,B,,11.50", "B,A,,20.00", "C,D,,7"]
    flights = [f"a,{price},," for price in prices]
    assert answer("q4", [], flights) == "A-B,11.0,11.50\nB-A,20.0,20.00\n"


def test_q4_counts_flights_without_airports_in_the_mean_of_all_only(answer: Asked) -> None:
    flights = ["a,A,B,,3,,", ",A,B,,5,,", "b,,B,,4,,", "c,A,,,0,,", "d,A,B,,,,", "e,A,B,,no,,"]
    # The mean is 12 / 4.
    assert answer("q4", [], flights) == "A-B,5.0,5\n"
    assert answer("q4", [], flights[:3]) == "A-B,5.0,5\n"
    assert answer("q4", [], flights[2:4]) == ""


def test_q4_compares_with_the_mean_exactly(answer: Asked) -> None:
    # As floats the sum is 2.0999999999999996, and every price above a third of that.
    flights = ["a,A,B,,0.7,,", "b,A,B,,0.7,,", "c,A,B,,0.7,,"]
    assert answer("q4", [], flights) == ""
    # As floats the sum is 0; in truth it is 2, and the mean 2/5.
    flights = ["a,A,B,,1e30,,", "b,A,B,,1,,", "c,C,D,,0.6,,", "d,C,D,,0.4,,", "e,A,B,,-1e30,,"]
    assert answer("q4", [], flights) == "A-B,5e+29,1e30\nC-D,0.6,0.6\n"


def test_q4_writes_the_smallest_text_of_equal_highest_prices(answer: Asked) -> None:
    flights = ["a,A,B,,1,,", "b,A,B,,9.50,,", "c,A,B,,9.5,,", "d,A,B,,95e-1,,", "e,C,D,,10,,"]
    # The mean is 39.5 / 5.
    assert answer("q4", [], flights) == "A-B,9.5,9.5\nC-D,10.0,10\n"
    blank = [*flights, "f,A,B,, 9.5,,"]
    assert answer("q4", [], blank) == "A-B,9.5, 9.5\nC-D,10.0,10\n"


def test_q4_finds_the_highest_by_value(answer: Asked) -> None:
    flights = ["a,A,B,,0,,", "b,A,B,,9.50,,", "c,A,B,,10,,"]
    assert answer("q4", [], flights) == "A-B,9.75,10\n"


def test_q4_has_no_rows_without_prices_or_with_equal_ones(answer: Asked) -> None:
    assert answer("q4", [], ["a,A,B,,,,"]) == ""
    assert answer("q4", [], ["a,A,B,,5,,", "b,A,B,,5.0,,"]) == ""


def test_routes_that_are_only_written_alike_are_not_the_same(answer: Asked) -> None:
    flights = ["a,A-B,C,PT1H,9,,X||C", "b,A,B-C,PT2H,10,,X||C", "c,A,B-C,PT3H,1,,X||C"]
    assert answer("q4", [], flights) == "A-B-C,9.0,9\nA-B-C,10.0,10\n"
    found = answer("q3", [], flights, q3_min_stopovers=1, q3_fastest=1)
    assert found == 'A-B-C,a,"[""X""]",PT1H\nA-B-C,b,"[""X""]",PT2H\n'


# All


def test_a_parameter_that_no_query_has_is_refused(answer: Asked) -> None:
    with pytest.raises(ValueError, match=r"q4\.times"):
        answer("q4", q4_times=1)


def test_the_command_line_writes_the_same_bytes(tmp_path: Path) -> None:
    airports = written(tmp_path / "airports.csv", AIRPORTS, EQUATOR)
    flights = written(tmp_path / "flights.csv", FLIGHTS, ["a,A,B,PT1H,1,99,C||B"])
    out = tmp_path / "new" / "out"
    oracle.main([str(airports), str(flights), str(out), "--set", "q1.min_stopovers=1"])
    found = {path.stem: path.read_bytes() for path in out.iterdir()}
    assert found == oracle.answers(airports, flights, {"q1.min_stopovers": 1})
    assert found["q1"] == b'id,route,price,stopovers\na,A-B,1,"[""C""]"\n'


def test_the_real_sample_has_the_known_number_of_rows() -> None:
    folder = real_sample("flights")
    if not folder.is_dir():
        pytest.skip(NO_REAL_ROWS)
    airports, flights = folder / "airports-codepublic.csv", folder / "itineraries.csv"
    assert (oracle.rejected(airports, "airports"), oracle.rejected(flights, "flights")) == ([], [])
    assert len(oracle.places(airports)) == 9187
    assert sum(1 for _ in rows(flights, ["legId"])) == 4797
    q1 = oracle.answers(airports, flights)["q1"].splitlines()
    # There are 19 rows of four segments and 1 of five.
    assert len(q1) == 1 + 20
