"""Seeded data sets: the project makes its own data, of any size."""

from booksan.generate.generator import GENERATORS, Generated, Generator, Written, generator_named

__all__ = ["GENERATORS", "Generated", "Generator", "Written", "generator_named"]
