"""The files that all contestants read: generated once, kept where the user says."""

import shutil
from dataclasses import dataclass
from pathlib import Path

#: Bytes read at a time when the files are brought into the page cache.
BLOCK = 1 << 20


@dataclass(frozen=True)
class BookFiles:
    books: Path
    reviews: Path
    book_rows: int
    review_rows: int

    @property
    def bytes(self) -> int:
        return self.books.stat().st_size + self.reviews.stat().st_size


def book_files(directory: Path, *, books: int, reviews: int, seed: int) -> BookFiles:
    """Generate the files, or find the ones that an earlier run left in the directory."""
    home = directory / f"books-{books}-reviews-{reviews}-seed-{seed}"
    if not home.exists():
        _generate(home, books=books, reviews=reviews, seed=seed)
    return BookFiles(home / "books_data.csv", home / "Books_rating.csv", books, reviews)


def _generate(home: Path, *, books: int, reviews: int, seed: int) -> None:
    """Renamed into place when complete, so that an interrupted run leaves nothing half-done."""
    from booksan.generate.books import generate_books

    unfinished = home.with_name(f"{home.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    generate_books(unfinished, books=books, reviews=reviews, seed=seed)
    unfinished.rename(home)


def warm_page_cache(files: BookFiles) -> None:
    """Read both files once, so that the first contestant does not pay for the disk."""
    for path in (files.books, files.reviews):
        with path.open("rb") as file:
            while file.read(BLOCK):
                pass
