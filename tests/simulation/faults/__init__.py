"""Runs under seeded faults of all kinds at once, and the search for the fewest that break one.

plan       the kinds of faults, and plans of them out of a seed
world      a simulated cluster in which a plan comes true
trial      one plan run to its end: right, failed in order, wrong, or hung
search     trials of many seeds; a plan that fails is shrunk to the fewest faults
mutations  exactly-once broken on purpose, to see that the search finds it
"""
