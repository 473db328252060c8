"""The data set `aoe2`: matches.csv and match_players.csv, made from a seed.

The files have the columns of the public ones, their proportions and their warts. The same
arguments give the same bytes everywhere.
"""

from pathlib import Path

from booksan.generate import matches, players
from booksan.generate.chance import Chance
from booksan.generate.dirt import Dirt
from booksan.generate.files import Progress
from booksan.generate.generator import Generated, Generator, prepare, write_rows

MATCHES_FILE = "matches.csv"
PLAYERS_FILE = "match_players.csv"

#: Rows of the two public files.
_PUBLIC_MATCHES, _PUBLIC_PLAYERS = 3_153_767, 9_732_500


def generate_aoe2(
    out: Path,
    *,
    rows: int,
    seed: int,
    dirty: bool = False,
    progress: Progress | None = None,
    first_rows: int | None = None,
) -> Generated:
    """Write `rows` players, and the matches that they played."""
    fought = rows * _PUBLIC_MATCHES // _PUBLIC_PLAYERS if first_rows is None else first_rows
    prepare(out, fought, rows)
    first = write_rows(
        out / MATCHES_FILE,
        matches.COLUMNS,
        matches.MatchRows(matches.Matches(fought, seed), seed),
        fought,
        dirt=_dirty_matches(seed) if dirty else None,
        progress=progress,
    )
    # The matches are made a second time: to remember millions of them would take too much memory.
    second = write_rows(
        out / PLAYERS_FILE,
        players.COLUMNS,
        players.Players(matches.Matches(fought, seed), seed).rows(rows),
        rows,
        dirt=_dirty_players(seed) if dirty else None,
        progress=progress,
    )
    return Generated(first, second)


def _dirty_matches(seed: int) -> Dirt:
    return Dirt(
        Chance(seed, "dirty matches"),
        text=matches.MAP,
        number=matches.RATING,
        boolean=matches.MIRROR,
        duration=matches.DURATION,
    )


def _dirty_players(seed: int) -> Dirt:
    return Dirt(
        Chance(seed, "dirty players"),
        text=players.CIV,
        number=players.RATING,
        boolean=players.WINNER,
        oversized=True,
    )


GENERATOR = Generator(
    files=(MATCHES_FILE, PLAYERS_FILE), rows_help="players", generate=generate_aoe2
)
