"""Rows of the public data sets, where somebody has put them: never a part of the project."""

import os
from pathlib import Path

#: A directory with `books`, `flights`, ...; by default one beside the repository.
REAL_ROWS = Path(
    os.environ.get("BOOKSAN_REAL_ROWS") or Path(__file__).resolve().parents[3] / "shared/data"
)
#: What the reason of a skipped test begins with, so that they can be counted.
NO_REAL_ROWS = "no rows of the public data set"
