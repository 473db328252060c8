"""The client of a booksan server: files in, answers out, whatever is killed on the way."""

__version__ = "0.1.0"
