"""A fault-tolerant analytics pipeline: the same answers whatever is killed on the way."""

__version__ = "0.1.0"
