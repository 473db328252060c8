"""Files that cannot be used are refused with one line; rows that cannot be read are counted."""

import gzip
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance.files import (
    BOOKS,
    BOOKS_HEADER,
    PARAMS,
    REVIEWS,
    REVIEWS_HEADER,
    books_with,
    reviews_with,
    write_inputs,
)
from tests.acceptance.inside import refuse
from tests.support.command import Place, run_books, settings
from tests.support.inputs import check_answers, rejected_rows

MIB = 1024 * 1024
BOM = b"\xef\xbb\xbf"
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
ELF = b"\x7fELF\x02\x01\x01" + bytes(57)


@dataclass(frozen=True)
class Refused:
    """A file that is refused, and words that the message must hold."""

    name: str
    says: str
    books: bytes = BOOKS
    reviews: bytes = REVIEWS

    @property
    def culprit(self) -> str:
        return "reviews.csv" if self.books == BOOKS else "books.csv"


REFUSED = (
    Refused("an empty file", "empty; a header line is needed", books=b""),
    Refused("only blank lines", "empty; a header line is needed", reviews=b"\n\r\n\n"),
    Refused("only a byte order mark", "empty; a header line is needed", books=BOM),
    Refused("no column authors", "missing column 'authors'", books=BOOKS.replace(b"authors", b"a")),
    Refused("no score", "missing column 'review/score'", reviews=REVIEWS.replace(b"score", b"s")),
    Refused("a name in other case", "missing column 'Title'", books=BOOKS.replace(b"Tit", b"tit")),
    Refused("files swapped", "looks like the file of 'reviews'", books=REVIEWS, reviews=BOOKS),
    Refused(
        "books twice", "not of 'reviews': give the files in the order books, reviews", reviews=BOOKS
    ),
    Refused("a column twice", "twice: 'Title'", books=BOOKS.replace(b"description", b"Title")),
    Refused("CR line ends", "convert the line ends to LF", books=BOOKS.replace(b"\n", b"\r")),
    Refused(
        "CR after few columns", "convert the line ends", books=b"Title,authors\rDune,Herbert\r"
    ),
    Refused("semicolons", "separated by ';': it must be ','", books=BOOKS.replace(b",", b";")),
    Refused("tabs", r"separated by '\t'", reviews=REVIEWS.replace(b",", b"\t")),
    Refused("NUL in the header", "zero bytes", books=BOOKS.replace(b"Title", b"Ti\0tle")),
    Refused("UTF-16", "UTF-16: convert it to UTF-8", books=BOOKS.decode().encode("utf-16")),
    Refused(
        "UTF-16 big-endian", "UTF-16", reviews=b"\xfe\xff" + REVIEWS.decode().encode("utf-16be")
    ),
    Refused("Latin-1 header", "header is not UTF-8; convert", books=b"Caf\xe9," + BOOKS),
    Refused("open quote in the header", "quote that is never closed", books=b'Title,"authors\n'),
    Refused("text after a quote", "text after a closing quote", books=b'"Title"x,' + BOOKS),
    Refused("random bytes", "header", books=random.Random(1).randbytes(9_000)),
    Refused("a picture", "not UTF-8", reviews=PNG),
    Refused("a program", "zero bytes", reviews=ELF),
    Refused("one line of 5 MB", "longer than 4194304 bytes", books=b"x" * 5_000_000),
    Refused("truncated gzip", "gzip data is broken or cut short", books=gzip.compress(BOOKS)[:-20]),
    Refused("gzip of nothing", "empty; a header line is needed", books=gzip.compress(b"")),
)


def corrupt(at: int) -> bytes:
    data = bytearray(gzip.compress(REVIEWS))
    data[at] ^= 0xFF
    return bytes(data)


REFUSED_GZIP = (
    Refused("gzip with a broken header", "gzip data is broken", reviews=corrupt(2)),
    Refused("gzip broken in the middle", "gzip data is broken", reviews=corrupt(60)),
    Refused("gzip with a wrong checksum", "gzip data is broken", reviews=corrupt(-6)),
)


@pytest.mark.parametrize("case", REFUSED + REFUSED_GZIP, ids=lambda case: case.name)
def test_an_unusable_file_is_refused_with_one_line_that_names_it(
    case: Refused, place: Place
) -> None:
    paths = write_inputs(place.root, case.books, case.reviews)
    ended = refuse(place, run_books(*paths, place.out))
    assert ended.code == 3
    assert str(place.root / case.culprit) in ended.message
    assert case.says in ended.message
    assert not place.out.exists()


def test_a_name_in_gz_must_hold_gzip(place: Place) -> None:
    books, reviews = write_inputs(place.root)
    named = books.rename(place.root / "books.csv.gz")
    ended = refuse(place, run_books(named, reviews, place.out))
    assert ended.code == 3
    assert f"{named}: is named .gz but holds no gzip data" in ended.message


@dataclass(frozen=True)
class Counted:
    """Files that are read, with as many rejected rows; the oracle knows which ones."""

    name: str
    rejected: int
    books: bytes | Callable[[], bytes] = BOOKS
    reviews: bytes | Callable[[], bytes] = REVIEWS

    def write(self, root: Path) -> tuple[Path, Path]:
        contents = (each() if callable(each) else each for each in (self.books, self.reviews))
        return write_inputs(root, *contents)


def record(size: int) -> bytes:
    """A review of so many bytes, its line end not counted."""
    start = b"9,The Old Mill,3,9,good "
    return start + b"x" * (size - len(start)) + b"\n"


def huge(start: bytes, line: bytes, end: bytes = b"") -> Callable[[], bytes]:
    """A review with a field of 50 MB, among good ones."""
    return lambda: reviews_with(start + line * (50_000_000 // len(line)) + end + b"\n")


COUNTED = (
    Counted("only headers", 0, BOOKS_HEADER, REVIEWS_HEADER),
    Counted("a header without line end", 0, BOOKS_HEADER.rstrip()),
    Counted("byte order marks", 0, BOM + BOOKS, BOM + REVIEWS),
    Counted("CRLF", 0, BOOKS.replace(b"\n", b"\r\n"), REVIEWS.replace(b"\n", b"\r\n")),
    Counted("blank lines", 0, books_with(b"\n\r\n"), b"\n\n" + reviews_with(b"\n\n") + b"\n\n"),
    Counted("gzip without its name", 0, gzip.compress(BOOKS), gzip.compress(REVIEWS)),
    Counted("lone CR in fields", 0, books_with(b"A\rB,\r,['X'],,1995,['Fiction']\n")),
    Counted("NUL in rows", 2, books_with(b"A,\0,['X'],,1995,['Fiction']\n"), reviews_with(b"\0\n")),
    Counted(
        "broken UTF-8 in needed fields",
        2,
        books_with(b"\xff,,X,,1,Y\n"),
        reviews_with(b"7,\xc3,1,2,\n"),
    ),
    Counted(
        "broken UTF-8 in other fields",
        2,
        books_with(b"A,\xff,X,,1,Y\n"),
        reviews_with(b"\xc3,A,1,2,\n"),
    ),
    Counted(
        "open quote in the middle", 2, reviews=reviews_with(b'7,The Old Mill,1,2,"never closed\n')
    ),
    Counted("open quote at the end", 1, reviews=REVIEWS + b'7,The Old Mill,1,2,"never\nclosed\n'),
    Counted("text after a quote", 2, books_with(b'"A"x,,,,,\n', b'"A" ,,X,,1,Y\n')),
    Counted(
        "wrong numbers of fields",
        4,
        books_with(b"A\n", b",,,,,,\n"),
        reviews_with(b"7,A\n", b",,,,,\n"),
    ),
    Counted("last lines without line end", 0, BOOKS.rstrip(), REVIEWS.rstrip()),
    Counted("last lines cut short", 2, BOOKS + b"A,b", REVIEWS + b"7,The Old Mill,5"),
    Counted(
        "bad scores",
        6,
        reviews=reviews_with(
            *(
                b"7,Winter,%b,2,\n" % score
                for score in (
                    b"x",
                    b"   ",
                    b"1e999999999",
                    b"1,5".replace(b",", b"."),
                    b"0x4",
                    b"nan",
                    b"\xd9\xa3",
                    b" 4 ",
                    b"+.5e1",
                )
            )
        ),
    ),
    Counted(
        "odd lists",
        0,
        books_with(
            b"A,,[],,1990,['Fiction']\n",
            b"B,,\"['', 'X']\",,1990,['Fiction']\n",
            b"C,,[1,,1990,['Fiction']\n",
            b"D,,\"[1, None]\",,1990,['Fiction']\n",
            b"E,," + b"[" * 300 + b",,1990,['Fiction']\n",
            b"F,,['\\ud800'],,1990,['Fiction']\n",
        ),
    ),
    Counted("a record of 4 MiB", 0, reviews=lambda: reviews_with(record(4 * MIB))),
    Counted("a record of 4 MiB and a byte", 1, reviews=lambda: reviews_with(record(4 * MIB + 1))),
    Counted("an unquoted field of 50 MB", 1, reviews=huge(b"7,Winter,1,2,", b"x")),
    Counted("a quoted field of 50 MB", 1, reviews=huge(b'7,Winter,1,2,"', b"x", b'"')),
    Counted(
        "a field of 50 MB with line breaks",
        461,
        reviews=huge(b'7,Winter,1,2,"', b"x" * 99_999 + b"\n", b'"'),
    ),
)


@pytest.mark.parametrize("case", COUNTED, ids=lambda case: case.name)
def test_rows_that_cannot_be_read_are_counted_and_the_rest_is_answered(
    case: Counted, place: Place
) -> None:
    books, reviews = case.write(place.root)
    command = run_books(books, reviews, place.out, *settings(PARAMS))
    ended = place.run([*command, "--json", "--workers", "1"])
    assert ended.code == 0, ended.err
    if books.read_bytes().startswith(b"\x1f\x8b"):
        books, reviews = write_inputs(place.root)
    check_answers(place.out, books, reviews, PARAMS)
    assert len(rejected_rows(place.out)) == case.rejected
    assert sum(ended.document["rejected"].values()) == case.rejected
    assert (f"{place.out}/rejected.csv says which" in ended.err) == bool(case.rejected)
    assert not place.leftovers()


def test_a_gzip_file_that_breaks_off_late_is_named_and_a_whole_one_then_answered(
    place: Place,
) -> None:
    books, reviews = write_inputs(place.root)
    noise = random.Random(2).randbytes(3 * MIB).hex().encode()
    lines = [b"8,Winter,3,1,%b\n" % noise[at : at + 1000] for at in range(0, len(noise), 1000)]
    whole = gzip.compress(reviews_with(*lines), compresslevel=1)
    reviews.write_bytes(whole[: len(whole) - 1000])
    command = run_books(books, reviews, place.out, *settings(PARAMS))
    ended = place.run(command)
    assert ended.code == 3
    assert f"{reviews}: the gzip data is broken or cut short" in ended.message
    reviews.write_bytes(whole)
    assert place.run(command).code == 0
    plain = place.root / "plain.csv"
    plain.write_bytes(gzip.decompress(whole))
    check_answers(place.out, books, plain, PARAMS)
    assert not place.leftovers()
