"""Seeded data sets: the project makes its own data, of any size."""

from booksan.generate.files import Written
from booksan.generate.generator import Generated, Generator
from booksan.generate.registry import GENERATORS, generator_named

__all__ = ["GENERATORS", "Generated", "Generator", "Written", "generator_named"]
