"""The data set `steam`: games.csv and reviews.csv, made from a seed.

The files have the columns of the public ones, their proportions and their warts. The same
arguments give the same bytes everywhere.
"""

from pathlib import Path

from booksan.errors import UsageError
from booksan.generate import games, verdicts
from booksan.generate.chance import Chance
from booksan.generate.dirt import Dirt
from booksan.generate.files import Progress
from booksan.generate.generator import Generated, Generator, prepare, write_rows

GAMES_FILE = "games.csv"
REVIEWS_FILE = "reviews.csv"

#: Rows of the two public files.
_PUBLIC_GAMES, _PUBLIC_REVIEWS = 97_410, 6_417_106
#: Small data gets more games than its share, up to these, or there would be too few to compare.
FEW_GAMES = 100
#: The header of the games by its number of names.
_HEADERS = {39: games.SHORT_HEADER, 40: games.COLUMNS}


def generate_steam(
    out: Path,
    *,
    rows: int,
    seed: int,
    dirty: bool = False,
    progress: Progress | None = None,
    first_rows: int | None = None,
    header_names: int = 39,
) -> Generated:
    """Write `rows` reviews, and the games that they are about.

    Games have 40 fields, under a header of as many names, or of 39 as in the public file.
    """
    if header_names not in _HEADERS:
        raise UsageError(f"the header of the games has 39 names or 40, not {header_names}")
    sold = max(rows * _PUBLIC_GAMES // _PUBLIC_REVIEWS, min(FEW_GAMES, rows // 10))
    sold = sold if first_rows is None else first_rows
    prepare(out, sold, rows)
    store = games.Store(sold, seed)
    first = write_rows(
        out / GAMES_FILE,
        _HEADERS[header_names],
        store.rows(),
        sold,
        dirt=_dirty_games(seed) if dirty else None,
        progress=progress,
    )
    second = write_rows(
        out / REVIEWS_FILE,
        verdicts.COLUMNS,
        verdicts.Verdicts(store.games, seed).rows(rows),
        rows,
        dirt=_dirty_reviews(seed) if dirty else None,
        progress=progress,
    )
    return Generated(first, second)


def _dirty_games(seed: int) -> Dirt:
    return Dirt(
        Chance(seed, "dirty games"),
        text=games.ABOUT,
        number=games.PLAYTIME,
        whole=games.APP_ID,
        boolean=games.WINDOWS,
    )


def _dirty_reviews(seed: int) -> Dirt:
    return Dirt(
        Chance(seed, "dirty verdicts"),
        text=verdicts.TEXT,
        number=verdicts.SCORE,
        whole=verdicts.APP_ID,
        oversized=True,
    )


GENERATOR = Generator(
    files=(GAMES_FILE, REVIEWS_FILE), rows_help="reviews", generate=generate_steam
)
