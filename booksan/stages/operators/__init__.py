"""What stages are made of: each operator does one thing, and a data set says with what.

`Filter` passes rows on. The others keep state: `First` the first row of each key, `Tally` and
`Histogram` counts, `Means` means of floats, `Total` one sum over all, `Chosen` rows that pass a
test against an earlier source, `Screened` counts that need a costly test, `Top` and `Leaders` the
best of all or of each key, `Percentile` what is at or above a percentile.
"""

from booksan.stages.operators.chosen import Chosen
from booksan.stages.operators.filter import Filter
from booksan.stages.operators.histogram import Histogram
from booksan.stages.operators.joining import First, first_rows
from booksan.stages.operators.means import Means
from booksan.stages.operators.percentile import Percentile
from booksan.stages.operators.screened import Screened
from booksan.stages.operators.tally import Give, Group, Tally
from booksan.stages.operators.top import Leaders, Top
from booksan.stages.operators.total import Total

__all__ = [
    "Chosen",
    "Filter",
    "First",
    "Give",
    "Group",
    "Histogram",
    "Leaders",
    "Means",
    "Percentile",
    "Screened",
    "Tally",
    "Top",
    "Total",
    "first_rows",
]
