"""How fast booksan is, next to the scripts that people would write without it.

`books` runs the contestants and compares their answers; `sentiment` compares the two ways to a
polarity; `duckdb_books` and `polars_books` are the baselines, each a script of its own. Nothing is
imported here: a baseline must not pay for what it does not use.
"""
