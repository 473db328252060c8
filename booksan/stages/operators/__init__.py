"""What stages are made of: each operator does one thing, and a data set says with what.

`Filter` passes rows on. The others keep state: `First` the first row of each key, `Tally` and
`Histogram` counts, `Means` means of floats, `Total` one sum over all, `JoinFilter` rows that pass a
test against an earlier source, `FilteredTally` counts that need a costly test, `Top` and `Leaders`
the best of all or of each key, `Percentile` what is at or above a percentile.
"""

from booksan.stages.operators.counting import FilteredTally, Give, Group, Histogram, Tally
from booksan.stages.operators.joining import First, first_rows
from booksan.stages.operators.rows import Filter, JoinFilter, Leaders, Percentile, Top
from booksan.stages.operators.sums import Means, Total

__all__ = [
    "Filter",
    "FilteredTally",
    "First",
    "Give",
    "Group",
    "Histogram",
    "JoinFilter",
    "Leaders",
    "Means",
    "Percentile",
    "Tally",
    "Top",
    "Total",
    "first_rows",
]
