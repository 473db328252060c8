"""Small inputs with something for every query, and ways to spoil them."""

from pathlib import Path

BOOKS_HEADER = b"Title,description,authors,publisher,publishedDate,categories\n"
REVIEWS_HEADER = b"Id,Title,review/score,review/time,review/text\n"

BOOK_ROWS = (
    b"Distributed Tea,about tea,\"['Ann Lee', 'Bo Ray, Jr.']\",Kettle,2004-05-01,['Computers']\n",
    b"The Old Mill,,['Ann Lee'],,1994,['Fiction']\n",
    b"\"Salt, Sand\",x,['Cy \"C\" Dow'],Shore,1991*,\"['Fiction', 'Sea']\"\n",
    b"Winter,,Dee Fox,Shore,1899,Fiction\n",
)
REVIEW_ROWS = (
    b"1,The Old Mill,5.0,1,A wonderful and moving book.\n",
    b"2,The Old Mill,4,2,\n",
    b'3,"Salt, Sand",2.5,3,"Bad, ""bad"",\nand boring."\n',
    b"4,Winter,,4,Good enough for a cold day.\n",
    b"5,Nobody Knows,1,5,A terrible waste.\n",
    b'6,"Salt, Sand",3,6,I love the sea.\n',
)
BOOKS = BOOKS_HEADER + b"".join(BOOK_ROWS)
REVIEWS = REVIEWS_HEADER + b"".join(REVIEW_ROWS)

#: Thresholds that such small files can pass.
PARAMS = {"q2.decades": 1, "q3.min_reviews": 1, "q5.percentile": 50}


def books_with(*rows: bytes) -> bytes:
    """Spoilt rows among good ones."""
    return BOOKS_HEADER + BOOK_ROWS[0] + b"".join(rows) + b"".join(BOOK_ROWS[1:])


def reviews_with(*rows: bytes) -> bytes:
    return REVIEWS_HEADER + REVIEW_ROWS[0] + b"".join(rows) + b"".join(REVIEW_ROWS[1:])


def write_inputs(root: Path, books: bytes = BOOKS, reviews: bytes = REVIEWS) -> tuple[Path, Path]:
    paths = root / "books.csv", root / "reviews.csv"
    for path, data in zip(paths, (books, reviews), strict=True):
        path.write_bytes(data)
    return paths
