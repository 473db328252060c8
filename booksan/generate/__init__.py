"""Seeded data sets: the project makes its own data, of any size."""

from booksan.generate.books import Generated, generate_books
from booksan.generate.files import Written

__all__ = ["Generated", "Written", "generate_books"]
