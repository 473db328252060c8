"""The rows of airports-codepublic.csv: some airports everybody flies to, and the rest of the world.

The coordinates of the former are about right, so that distances are.
"""

from collections.abc import Iterator
from math import sqrt
from typing import NamedTuple

from booksan.generate import words
from booksan.generate.generator import Chance, Row, Style

COLUMNS = (
    *("Airport Code", "Airport Name", "City Name", "Country Name", "Country Code", "Latitude"),
    *("Longitude", "World Area Code", "City Name geo_name_id", "Country Name geo_name_id"),
    "coordinates",
)
NAME = COLUMNS.index("Airport Name")
LATITUDE = COLUMNS.index("Latitude")
STYLE = Style(delimiter=";", end="\r\n", bom=True)
LACKING = "\\N"


class Airport(NamedTuple):
    code: str
    city: str
    latitude: float
    longitude: float
    #: Hours that its clocks are ahead of UTC, in summer.
    offset: int
    #: Journeys that begin there, in proportion to the others.
    weight: int


#: Between any two of these there is a route.
BUSY = (
    Airport("ATL", "Atlanta", 33.64, -84.43, -4, 27),
    Airport("BOS", "Boston", 42.36, -71.01, -4, 32),
    Airport("CLT", "Charlotte", 35.21, -80.95, -4, 33),
    Airport("DEN", "Denver", 39.86, -104.67, -6, 26),
    Airport("DFW", "Dallas", 32.9, -97.04, -5, 31),
    Airport("DTW", "Detroit", 42.21, -83.35, -4, 27),
    Airport("EWR", "Newark", 40.69, -74.17, -4, 26),
    Airport("IAD", "Washington", 38.95, -77.46, -4, 22),
    Airport("JFK", "New York", 40.64, -73.78, -4, 27),
    Airport("LAX", "Los Angeles", 33.94, -118.41, -7, 50),
    Airport("LGA", "New York", 40.78, -73.87, -4, 36),
    Airport("MIA", "Miami", 25.79, -80.29, -4, 32),
    Airport("OAK", "Oakland", 37.72, -122.22, -7, 17),
    Airport("ORD", "Chicago", 41.98, -87.9, -5, 32),
    Airport("PHL", "Philadelphia", 39.87, -75.24, -4, 27),
    Airport("SFO", "San Francisco", 37.62, -122.38, -7, 35),
)
#: On the way between the busy ones.
ON_THE_WAY = (
    Airport("MSP", "Minneapolis", 44.88, -93.22, -5, 0),
    Airport("IAH", "Houston", 29.98, -95.34, -5, 0),
    Airport("SEA", "Seattle", 47.45, -122.31, -7, 0),
    Airport("STL", "Saint Louis", 38.75, -90.37, -5, 0),
    Airport("BNA", "Nashville", 36.12, -86.68, -5, 0),
    Airport("SLC", "Salt Lake City", 40.79, -111.98, -6, 0),
    Airport("LAS", "Las Vegas", 36.08, -115.15, -7, 0),
    Airport("PHX", "Phoenix", 33.43, -112.01, -7, 0),
    Airport("BWI", "Baltimore", 39.18, -76.67, -4, 0),
    Airport("MCO", "Orlando", 28.43, -81.31, -4, 0),
    Airport("UIN", "Quincy", 39.94, -91.19, -5, 0),
    Airport("OWB", "Owensboro", 37.74, -87.17, -5, 0),
)
#: Ends of a journey that have no place: without a latitude, with one that is none, without a row.
ODD_LATITUDES = {"XQA": LACKING, "XQB": "", "XQC": "95.25", "XQD": "-90.000001"}
#: Where a second row has what the first lacks: the first counts.
LACKS_AT_FIRST = "XQA"
#: At the same place as another: the way between the two has no length.
TWIN, TWIN_OF = "XQE", BUSY[8]
UNKNOWN = ("XQX", "XQY", "atl", "ORD ")

_NAMED = "XQ"
_CODES = 26**3
#: Divides no power of 26: steps of it visit each code once.
_STEP = 7919
#: Name, code, world area code, id, and the south-west corner of a square in it.
_COUNTRIES = (
    ("United States", "US", "67", "6252001", 31.0, -110.0),
    ("United States", "US", "67", "6252001", 35.0, -98.0),
    ("Australia", "AU", "802", "2077456", -33.0, 120.0),
    ("Canada", "CA", "906", "6251999", 48.0, -120.0),
    ("Papua New Guinea", "PG", "804", "2088628", -10.0, 142.0),
    ("Brazil", "BR", "316", "3469034", -20.0, -55.0),
    ("Germany", "DE", "429", "2921044", 48.0, 8.0),
    ("Côte d'Ivoire", "CI", "524", "2287781", 5.0, -8.0),
    ("Iceland", "IS", "439", "2629691", 64.0, -22.0),
    ("Fiji", "FJ", "825", "", -18.5, 177.0),
)
_ODD_NAMES = (
    "São Pedro",
    "Ağrı Dağı",
    "Zürich; Süd",
    'The "Old" Field',
    "Étang\nNord",
    "Новый Порт",
    "Seaplane Base; Pier 4\nGate 2",
)
_KINDS = ("Municipal", "International", "Regional", "Airport", "Heliport", "Field", "SPB", "County")
_SQUARE = 9.0


def miles(a: Airport, b: Airport) -> float:
    """About the distance, from sums, products and a root: those are the same on every machine."""
    middle = (a.latitude + b.latitude) / 2 * 0.017453292519943295
    square = middle * middle
    narrower = 1 - square / 2 * (1 - square / 12 * (1 - square / 30))
    north, east = a.latitude - b.latitude, (a.longitude - b.longitude) * narrower
    return 69.05 * sqrt(north * north + east * east)


class Airports:
    """Makes the rows one by one, the well-known airports among the others."""

    def __init__(self, airports: int, seed: int) -> None:
        self._airports = airports
        self._chance = Chance(seed, "airports")
        self._start = self._chance.below(_CODES)
        self._made = 0
        self._seen: list[str] = []

    def rows(self) -> Iterator[Row]:
        chance = self._chance
        known = self._known()
        places = dict(zip(chance.distinct(len(known), self._airports), known, strict=False))
        again = self._repeats()
        for i in range(self._airports):
            if i in places:
                row = places[i]
            else:
                row = self._again() if i in again and self._seen else self._ordinary()
            self._seen += [row[0]] if i in places else []
            yield row

    def _known(self) -> list[Row]:
        famous = [
            self._row(each.code, f"{each.city} International", each.city, str(each.latitude),
                      str(each.longitude), 0)
            for each in (*BUSY, *ON_THE_WAY)
        ]  # fmt: skip
        odd = [
            self._row(code, "Nowhere", "Nowhere", latitude, "-100.5", 0)
            for code, latitude in ODD_LATITUDES.items()
        ]
        place = (str(TWIN_OF.latitude), str(TWIN_OF.longitude))
        return [*famous, *odd, self._row(TWIN, f"{TWIN_OF.city} All", TWIN_OF.city, *place, 0)]

    def _repeats(self) -> set[int]:
        """Numbers of rows in the second half whose code came before."""
        half = self._airports // 2
        count = max(min(4, half // 8), half // 150)
        return {half + i for i in self._chance.distinct(count, self._airports - half)}

    def _again(self) -> Row:
        """A code for the second time, somewhere else."""
        chance = self._chance
        code = chance.pick(self._seen)
        if LACKS_AT_FIRST in self._seen:
            self._seen.remove(LACKS_AT_FIRST)
            code = LACKS_AT_FIRST
        return self._anywhere(code)

    def _ordinary(self) -> Row:
        while True:
            made, self._made = self._made, self._made + 1
            number = (self._start + made * _STEP) % _CODES
            letters = (number // 676, number // 26 % 26, number % 26)
            code = "".join([chr(65 + letter) for letter in letters])
            code += str(made // _CODES) if made >= _CODES else ""
            if not code.startswith(_NAMED) and code not in _FAMOUS:
                return self._anywhere(code)

    def _anywhere(self, code: str) -> Row:
        chance = self._chance
        city = f"{chance.pick(words.ADJECTIVES)} {chance.pick(words.NOUNS)}"
        name = chance.pick(_ODD_NAMES) if chance.happens(0.02) else city
        name += f" {chance.pick(_KINDS)}" if chance.happens(0.6) else ""
        number = chance.below(len(_COUNTRIES))
        *_, south, west = _COUNTRIES[number]
        latitude, longitude = self._degrees(south), self._degrees(west)
        if chance.happens(0.003):
            latitude = longitude = LACKING
        return self._row(code, name, city, latitude, longitude, number)

    def _degrees(self, least: float) -> str:
        text = f"{least + self._chance.random() * _SQUARE:.6f}"
        if self._chance.happens(0.3):
            return text[:-4]
        return f"{text}99999999" if self._chance.happens(0.02) else text

    def _row(
        self, code: str, name: str, city: str, latitude: str, longitude: str, country: int
    ) -> Row:
        chance = self._chance
        title, short, area, number, *_ = _COUNTRIES[country]
        city_id = LACKING if chance.happens(0.43) else str(2_000_000 + chance.below(9_000_000))
        place = f"{latitude}, {longitude}"
        return [code, name, city, title, short, latitude, longitude, area, city_id, number, place]


_FAMOUS = {each.code for each in (*BUSY, *ON_THE_WAY)}
