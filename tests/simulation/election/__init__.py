"""The election with a virtual clock and network: seeded, fast, and checked at every event.

python -m tests.simulation.election --seeds 0:10000
python -m tests.simulation.election --seeds 17 --trace
"""
