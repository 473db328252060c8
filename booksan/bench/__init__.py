"""How fast booksan is, next to the scripts that people would write without it.

`runner` runs the contestants and compares their answers; `sentiment` compares the two ways to a
polarity. A module `TOOL_SET` is the baseline of a data set with some tool, a script of its own;
what belongs to one data set is in such modules only. Nothing is imported here: a baseline must not
pay for what it does not use.
"""
