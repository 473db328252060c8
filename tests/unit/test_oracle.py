"""The oracle is trusted because every answer here was worked out by hand."""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.oracle import books as oracle
from tests.oracle.kinds import number
from tests.oracle.reader import RECORD_LIMIT, framed, lines, rows
from tests.support.real_rows import NO_REAL_ROWS, REAL_ROWS

BOOKS = b"Title,authors,publisher,publishedDate,categories\n"
REVIEWS = b"Title,review/score,review/text\n"
#: Polarities of TextBlob's lexicon that need no arithmetic.
GREAT, DULL, AWFUL = "excellent", "the", "terrible"


@pytest.fixture
def answer(tmp_path: Path) -> Answer:
    return Answer(tmp_path)


class Answer:
    """Runs one query over rows given as bytes; the header of the answer is left out."""

    def __init__(self, folder: Path) -> None:
        self.books = folder / "books.csv"
        self.reviews = folder / "reviews.csv"

    def __call__(
        self, query: str, books: Sequence[str], reviews: Sequence[str] = (), **params: object
    ) -> str:
        self.books.write_bytes(BOOKS + "".join(f"{row}\n" for row in books).encode())
        self.reviews.write_bytes(REVIEWS + "".join(f"{row}\n" for row in reviews).encode())
        named = {name.replace("_", ".", 1): value for name, value in params.items()}
        content = oracle.answers(self.books, self.reviews, named)[query].decode()
        return content.split("\n", 1)[1]


def fields_of(tmp_path: Path, content: bytes) -> list[list[bytes] | None]:
    path = tmp_path / "any.csv"
    path.write_bytes(content)
    return list(framed(lines(path)))


def rejected_reviews(tmp_path: Path, content: bytes) -> list[int]:
    path = tmp_path / "reviews.csv"
    path.write_bytes(REVIEWS + content)
    return oracle.rejected(path, "reviews")


# Reading


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b"a,b\nc,d", [[b"a", b"b"], [b"c", b"d"]], id="no line end at the end"),
        pytest.param(b"a,b\r\nc,d\r\n", [[b"a", b"b"], [b"c", b"d"]], id="CRLF ends a record"),
        pytest.param(b'"a\r\nb",c\r\n', [[b"a\r\nb", b"c"]], id="CRLF in quotes is data"),
        pytest.param(b"a\rb,c\n", [[b"a\rb", b"c"]], id="lone CR in a field is data"),
        pytest.param(b'"a\rb",c\n', [[b"a\rb", b"c"]], id="lone CR in quotes is data"),
        pytest.param(b"a\r\r\n", [[b"a\r"]], id="only the last CR belongs to the line end"),
        pytest.param(b"a,b\r", [[b"a", b"b\r"]], id="lone CR at the end of file is data"),
        pytest.param(b"\r", [[b"\r"]], id="a lone CR alone is no blank line"),
        pytest.param(b'"a"\r', [None], id="lone CR after a closing quote"),
        pytest.param(b'"a"\rb\nc\n', [None, [b"c"]], id="lone CR after a quote, then on"),
        pytest.param(b"\na\n\r\n\nb\n\n", [[b"a"], [b"b"]], id="blank lines are skipped"),
        pytest.param(b' \n""\n', [[b" "], [b""]], id="a space or an empty quote is not blank"),
        pytest.param(b'"a""b",c"d\n', [[b'a"b', b'c"d']], id="quotes doubled and in the middle"),
        pytest.param(b'"a"b\nc\n', [None, [b"c"]], id="text after a closing quote"),
        pytest.param(b'"a\nb"c,d\ne\n', [None, [b"e"]], id="an error takes its own line along"),
        pytest.param(b'"a"b,"c\nd\n', [None, [b"d"]], id="nothing after the error opens a quote"),
        pytest.param(b'a\n"b\nc\n', [[b"a"], None], id="an open quote at the end is one record"),
        pytest.param(b'a\n"', [[b"a"], None], id="a quote opened by the last byte"),
        pytest.param(b"a\x00b\n\xff\n", [[b"a\x00b"], [b"\xff"]], id="bytes are judged later"),
        pytest.param(b"a\xc2\x85b\x0cc\n", [[b"a\xc2\x85b\x0cc"]], id="no other line breaks"),
        pytest.param(b'\xef\xbb\xbf"a"\n', [[b"a"]], id="a BOM at the start is skipped"),
        pytest.param(b"a\n\xef\xbb\xbfb\n", [[b"a"], [b"\xef\xbb\xbfb"]], id="a later BOM is data"),
        pytest.param(b"\xef\xbb\xbf", [], id="nothing but a BOM"),
        pytest.param(b"", [], id="nothing"),
    ],
)
def test_records_are_framed_on_bytes(
    tmp_path: Path, content: bytes, expected: list[list[bytes] | None]
) -> None:
    assert fields_of(tmp_path, content) == expected


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b""])
def test_a_record_of_exactly_4_mib_is_read_and_one_byte_more_is_not(
    tmp_path: Path, line_end: bytes
) -> None:
    fits = b"x" * RECORD_LIMIT
    assert RECORD_LIMIT == 4_194_304
    assert fields_of(tmp_path, fits + line_end) == [[fits]]
    assert fields_of(tmp_path, b"x" + fits + line_end) == [None]


def test_an_open_quote_ends_at_the_line_that_passes_4_mib(tmp_path: Path) -> None:
    half = b"x" * (RECORD_LIMIT // 2)
    assert fields_of(tmp_path, b'"' + half + b"\n" + half + b'\nafter\n"b\nc"\n') == [
        None,
        [b"after"],
        [b"b\nc"],
    ]


def test_rejected_rows_are_numbered_from_the_header_without_blank_lines(tmp_path: Path) -> None:
    content = b'a,1,t\n\nb,1\n\r\nc,1,t,x\nd,1,"t"x\ne,1,t\nf,1,\xff\ng,1,\x00\nh,1,t\ni,1,"open\n'
    assert rejected_reviews(tmp_path, content) == [2, 3, 4, 6, 7, 9]


def test_utf8_is_judged_in_columns_that_no_query_needs(tmp_path: Path) -> None:
    path = tmp_path / "books.csv"
    path.write_bytes(b"extra," + BOOKS + b"\xff,a,b,c,d,e\n\xc3\xa9,a,b,c,d,e\n")
    assert oracle.rejected(path, "books") == [1]


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    path = tmp_path / "any.csv"
    path.write_bytes(b"z,y,x\n1,2,3\n")
    assert list(rows(path, ["x", "y"])) == [(1, {"x": "3", "y": "2", "z": "1"})]


def test_a_missing_column_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "books.csv"
    path.write_bytes(BOOKS.replace(b"authors", b"Authors"))
    with pytest.raises(ValueError, match="no column authors"):
        oracle.rejected(path, "books")


def test_a_needed_column_that_stands_twice_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "books.csv"
    path.write_bytes(b"authors," + BOOKS)
    with pytest.raises(ValueError, match="more than one column authors"):
        oracle.rejected(path, "books")


def test_gz_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + REVIEWS + b"a,x,t\n"))
    assert oracle.rejected(path, "reviews") == [1]


GOOD_NUMBERS = ["1", "+1", "-1.", ".5", "1.5e3", "1E-400", "1e+0400", "  4.0 ", "0" * 400]
BAD_NUMBERS = [" ", ".", "+", "1e", "1e401", "1e-401", "0" * 401, "\t1", "1\u00a0", "\u0661"]
BAD_NUMBERS += ["nan", "inf", "1_0", "0x1", "1/2", "1,5", "1 2", "--1", "+ 1", "1 e3", "1\n"]


@pytest.mark.parametrize("text", ["", *GOOD_NUMBERS])
def test_numbers_and_lacking_scores_are_not_rejected(tmp_path: Path, text: str) -> None:
    assert rejected_reviews(tmp_path, f'a,"{text}",t\n'.encode()) == []


@pytest.mark.parametrize("text", BAD_NUMBERS)
def test_what_is_no_number_is_rejected(tmp_path: Path, text: str) -> None:
    assert rejected_reviews(tmp_path, f'a,"{text}",t\n'.encode()) == [1]


def test_a_bad_score_is_rejected_also_without_a_title(tmp_path: Path) -> None:
    assert rejected_reviews(tmp_path, b",bad,t\n") == [1]


def test_numbers_are_exact() -> None:
    assert number("0.1") * 10 == 1
    assert number(" -2.50e1 ") == -25
    assert number("1e400") == 10**400


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("[]", []),
        ("['']", []),
        ("['a', '', 'b']", ["a", "b"]),
        ("['Martin Luther King, Jr.']", ["Martin Luther King, Jr."]),
        ('["Brian O\'Leary"]', ["Brian O'Leary"]),
        ("[1, None, 2.50]", ["1", "None", "2.5"]),
        ("['a', ['x']]", ["['a', ['x']]"]),
        ("Plain Name", ["Plain Name"]),
        (" ", [" "]),
        ("('a', 'b')", ["('a', 'b')"]),
        ("'a'", ["'a'"]),
        ("{'a': 1}", ["{'a': 1}"]),
        ("['a', name]", ["['a', name]"]),
        ("['open", ["['open"]),
        ("[{[]}]", ["[{[]}]"]),
        (r"['a', '\ud800']", [r"['a', '\ud800']"]),
        ("[" * 5000, ["[" * 5000]),
        ("-" * 5000 + "1", ["-" * 5000 + "1"]),
        ("[0x" + "f" * 5000 + "]", ["[0x" + "f" * 5000 + "]"]),
        (" ['a']", ["a"]),
        ("[' a ']", [" a "]),
    ],
)
def test_lists_are_parsed_as_literals(text: str, expected: list[str]) -> None:
    assert oracle.elements(text) == expected


def test_a_bad_escape_in_a_list_is_read_without_a_warning() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert oracle.elements(r"['\d']") == [r"\d"]
    assert seen == []


# Which books and reviews take part


@pytest.mark.parametrize(
    ("row", "year"),
    [
        ("t,['a'],p,1996,['c']", 1996),
        ("t,['a'],p,2005-01-01,['c']", 2005),
        ("t,['a'],,1963*,['c']", 1963),
        ("t,['a'],p,19 c. 198 12345,['c']", 1234),
        (",['a'],p,1996,['c']", None),
        ("t,[''],p,1996,['c']", None),
        ("t,['a'],p,1996,[]", None),
        ("t,['a'],p,,['c']", None),
        ("t,['a'],p,199?,['c']", None),
        ("t,['a'],p,\u0661\u0669\u0669\u0666,['c']", None),
    ],
)
def test_a_book_takes_part_when_it_lacks_nothing(
    tmp_path: Path, row: str, year: int | None
) -> None:
    path = tmp_path / "books.csv"
    path.write_bytes(BOOKS + row.encode() + b"\n")
    assert [book.year for book in oracle.participants(path)] == ([] if year is None else [year])


# The queries


def test_every_answer_has_its_header_line_also_when_it_is_empty(tmp_path: Path) -> None:
    books, reviews = tmp_path / "books.csv", tmp_path / "reviews.csv"
    books.write_bytes(BOOKS)
    reviews.write_bytes(REVIEWS)
    assert oracle.answers(books, reviews) == {
        "q1": b"title,authors,publisher\n",
        "q2": b"author,decades\n",
        "q3": b"title,authors,reviews\n",
        "q4": b"rank,title,mean_score\n",
        "q5": b"title,mean_polarity\n",
    }


def test_q1_filters_by_category_years_and_word(answer: Answer) -> None:
    books = [
        "Distributed X,['a'],p,2000,['Computers']",
        "unDISTRIBUTED,['a'],p,2023,\"['Art', 'Computers']\"",
        "Distributed early,['a'],p,1999,['Computers']",
        "Distributed late,['a'],p,2024,['Computers']",
        "Distribute,['a'],p,2010,['Computers']",
        "Distributed art,['a'],p,2010,['Computers & Art']",
        "Distributed case,['a'],p,2010,['computers']",
        "Distributed raw,['a'],,2010,Computers",
    ]
    assert answer("q1", books) == (
        'Distributed X,"[""a""]",p\nDistributed raw,"[""a""]",\nunDISTRIBUTED,"[""a""]",p\n'
    )


def test_q1_sorts_equal_titles_by_the_written_authors_then_publisher(answer: Answer) -> None:
    books = [
        f"distributed,{authors},{publisher},2010,['Computers']"
        for authors, publisher in [
            ("['a']", "q"),
            ("['a']", "p"),
            ("\"['a', 'b']\"", "z"),
            ("['a!']", "z"),
            ("['Kay Römer']", "z"),
            ("['a']", "p"),
        ]
    ]
    # In JSON the names end with a quote, which comes after "!".
    assert answer("q1", books) == (
        'distributed,"[""Kay Römer""]",z\n'
        'distributed,"[""a!""]",z\n'
        'distributed,"[""a"", ""b""]",z\n'
        'distributed,"[""a""]",p\n'
        'distributed,"[""a""]",p\n'
        'distributed,"[""a""]",q\n'
    )


def test_q1_takes_its_parameters(answer: Answer) -> None:
    books = ["Clouds,['a'],p,1980,['Sky']", "Distributed,['a'],p,2010,['Computers']"]
    found = answer(
        "q1", books, q1_category="Sky", q1_from_year=1980, q1_to_year=1980, q1_word="Cloud"
    )
    assert found == 'Clouds,"[""a""]",p\n'


def test_q2_counts_different_decades_of_each_single_author(answer: Answer) -> None:
    books = [
        "t,\"['b', 'a']\",p,1989,['c']",
        "t,\"['a', 'a']\",p,1990,['c']",
        "u,['b'],p,1980,['c']",
        "v,\"['King, Jr.']\",p,0999,['c']",
        "w,\"['King, Jr.']\",p,1000,['c']",
        "x,\"['King, Jr.']\",p,2000,['c']",
    ]
    assert answer("q2", books, q2_decades=2) == '"King, Jr.",3\na,2\n'


def test_q2_wants_ten_decades_when_not_told_otherwise(answer: Answer) -> None:
    books = [f"t,['ten'],p,{year},['c']" for year in range(1900, 2000, 10)]
    books += [f"t,['nine'],p,{year},['c']" for year in range(1900, 1990, 10)]
    assert answer("q2", books) == "ten,10\n"


def test_q3_counts_the_reviews_of_books_of_the_years(answer: Answer) -> None:
    books = [f"{year},['a'],p,{year},['c']" for year in (1989, 1990, 1999, 2000)]
    reviews = [f"{year},1,t" for year in (1989, 1990, 1999, 2000)] * 2 + ["1999,1,t", " 1990,1,t"]
    expected = '1990,"[""a""]",2\n1999,"[""a""]",3\n'
    assert answer("q3", books, reviews, q3_min_reviews=2) == expected
    assert answer("q3", books, reviews, q3_min_reviews=3) == '1999,"[""a""]",3\n'


def test_q3_wants_500_reviews_when_not_told_otherwise(answer: Answer) -> None:
    books = ["few,['a'],p,1995,['c']", "many,['a'],p,1995,['c']"]
    reviews = ["few,1,t"] * 499 + ["many,1,t"] * 500
    assert answer("q3", books, reviews) == 'many,"[""a""]",500\n'


def test_q3_counts_reviews_that_lack_score_or_text_but_no_rejected_ones(answer: Answer) -> None:
    books = ["t,['a'],p,1995,['c']"]
    reviews = ["t,,x", "t,1,", "t,,", "t,one,x", "t,1", ",1,x"]
    assert answer("q3", books, reviews, q3_min_reviews=1) == 't,"[""a""]",3\n'


def test_the_first_book_of_a_title_counts_before_any_filter(answer: Answer) -> None:
    books = [
        "old,['a'],p,1980,['c']",
        "old,['b'],p,1995,['c']",
        "new,['a'],p,1995,['c']",
        "new,['b'],p,1980,['c']",
    ]
    reviews = ["old,1,t", "new,1,t"]
    assert answer("q3", books, reviews, q3_min_reviews=1) == 'new,"[""a""]",1\n'


def test_a_book_that_takes_no_part_is_not_the_first_of_its_title(answer: Answer) -> None:
    books = ["t,[],p,1995,['c']", "t,['x'],p,none,['c']", "t,['b'],p,1995,['c']"]
    assert answer("q3", books, ["t,1,x"], q3_min_reviews=1) == 't,"[""b""]",1\n'


def test_q4_ranks_by_mean_then_title_and_cuts(answer: Answer) -> None:
    books = [f"{title},['a'],p,1995,['c']" for title in "dcbae"]
    reviews = ["a,1,t", "c,4.5,t", "b,5,t", "b,4,t", "d,5,t", "d,5,t", "d,4,t", "unknown,5,t"]
    ranked = answer("q4", books, reviews, q3_min_reviews=1, q4_top=3)
    assert ranked == "1,d,4.666666666666667\n2,b,4.5\n3,c,4.5\n"


def test_q4_gives_ten_when_not_told_otherwise(answer: Answer) -> None:
    books = [f"t{n:02},['a'],p,1995,['c']" for n in range(12)]
    reviews = [f"t{n:02},{n},t" for n in range(12)]
    ranked = answer("q4", books, reviews, q3_min_reviews=1).splitlines()
    assert (len(ranked), ranked[0], ranked[-1]) == (10, "1,t11,11.0", "10,t02,2.0")


def test_q4_means_are_exact_before_they_are_rounded_once(answer: Answer) -> None:
    books = [f"{title},['a'],p,1995,['c']" for title in ("huge", "tenths")]
    reviews = ["huge,1e30,t", "huge,1,t", "huge,-1e30,t", "huge,2,t"]
    # As floats, 0.1 three times is 0.30000000000000004, and that by three is not 0.1.
    reviews += ["tenths,0.1,t", "tenths, .1,t", "tenths,1e-1,t"]
    ranked = answer("q4", books, reviews, q3_min_reviews=1)
    assert ranked == "1,huge,0.75\n2,tenths,0.1\n"


def test_q4_means_beyond_the_floats_are_infinite(answer: Answer) -> None:
    books = [f"{title},['a'],p,1995,['c']" for title in ("high", "low")]
    ranked = answer("q4", books, ["low,-1e400,t", "high,1e400,t"], q3_min_reviews=1)
    assert ranked == "1,high,inf\n2,low,-inf\n"


def test_q4_leaves_lacking_scores_out_of_the_mean_and_unscored_books_out(answer: Answer) -> None:
    books = [f"{title},['a'],p,1995,['c']" for title in ("none", "some", "zero")]
    reviews = ["none,,t", "some,2,t", "some,,t", "some,,t", "zero,0,t"]
    assert answer("q4", books, reviews, q3_min_reviews=1) == "1,some,2.0\n2,zero,0.0\n"


def test_q4_looks_only_at_the_books_of_q3(answer: Answer) -> None:
    books = ["few,['a'],p,1995,['c']", "many,['a'],p,1995,['c']", "old,['a'],p,1980,['c']"]
    reviews = ["few,5,t", "many,1,t", "many,1,t", "old,5,t", "old,5,t"]
    assert answer("q4", books, reviews, q3_min_reviews=2) == "1,many,1.0\n"


FICTION = [f"{title},['a'],p,1890,['Fiction']" for title in ("good", "mixed", "null", "poor")]
# The means are 1, 1/3, 0 and -1.
FICTION_REVIEWS = [f"mixed,1,{text}" for text in (GREAT, GREAT, AWFUL)]
FICTION_REVIEWS += [f"null,,{DULL}", f"poor,1,{AWFUL}", f"good,1,{GREAT}", "good,1,"]


def test_q5_keeps_the_means_at_or_above_the_percentile(answer: Answer) -> None:
    # The cut is at place 0.9 * 3 = 2.7 of -1, 0, 1/3, 1.
    assert answer("q5", FICTION, FICTION_REVIEWS) == "good,1.0\n"
    # Of 0, 1/3, 1 the one in the middle is the cut itself, and stays.
    upper = [review for review in FICTION_REVIEWS if not review.startswith("poor")]
    expected = "good,1.0\nmixed,0.3333333333333333\n"
    assert answer("q5", FICTION, upper, q5_percentile=50) == expected


def test_q5_does_not_drop_a_mean_of_zero(answer: Answer) -> None:
    everything = answer("q5", FICTION, FICTION_REVIEWS, q5_percentile=0)
    assert everything == "good,1.0\nmixed,0.3333333333333333\nnull,0.0\npoor,-1.0\n"
    assert answer("q5", FICTION, [f"null,1,{DULL}"]) == "null,0.0\n"


def test_q5_has_no_rows_without_review_texts(answer: Answer) -> None:
    assert answer("q5", FICTION, ["good,1,", "elsewhere,1,excellent"]) == ""


def test_q5_takes_a_blank_text_for_a_text(answer: Answer) -> None:
    assert answer("q5", FICTION, [f"good,1,{GREAT}", "good,1, "]) == "good,0.5\n"


def test_q5_goes_by_the_category_of_the_first_book_of_a_title(answer: Answer) -> None:
    books = [
        "a,['x'],p,1890,['Art']",
        "a,['x'],p,1890,['Fiction']",
        "b,['x'],p,1890,\"['Art', 'Fiction']\"",
        "c,['x'],p,1890,['Science Fiction']",
    ]
    reviews = [f"{title},1,{GREAT}" for title in "abc"]
    assert answer("q5", books, reviews) == "b,1.0\n"
    assert answer("q5", books, reviews, q5_category="Art") == "a,1.0\nb,1.0\n"


def test_fields_are_quoted_only_where_csv_must(answer: Answer) -> None:
    books = [
        '"a, ""b""",[\'x\'],p,1890,[\'Fiction\']',
        "\"line\r\nbreak\",['x'],p,1890,['Fiction']",
        " spaced ,['x'],p,1890,['Fiction']",
    ]
    titles = ['"a, ""b"""', '"line\r\nbreak"', " spaced "]
    expected = ' spaced ,1.0\n"a, ""b""",1.0\n"line\r\nbreak",1.0\n'
    assert answer("q5", books, [f"{title},1,{GREAT}" for title in titles]) == expected


def test_a_parameter_that_no_query_has_is_refused(answer: Answer) -> None:
    with pytest.raises(ValueError, match=r"q3\.max_reviews"):
        answer("q3", [], q3_max_reviews=1)


def test_the_command_line_writes_the_same_bytes(tmp_path: Path) -> None:
    books, reviews = tmp_path / "books.csv", tmp_path / "reviews.csv"
    books.write_bytes(BOOKS + b"t,['a'],p,1995,['Fiction']\n")
    reviews.write_bytes(REVIEWS + b"t,5,excellent\n")
    out = tmp_path / "new" / "out"
    oracle.main([str(books), str(reviews), str(out), "--set", "q3.min_reviews=1"])
    written = {path.stem: path.read_bytes() for path in out.iterdir()}
    assert written == oracle.answers(books, reviews, {"q3.min_reviews": 1})
    assert written["q3"] == b'title,authors,reviews\nt,"[""a""]",1\n'


def test_the_real_sample_has_the_known_number_of_rows() -> None:
    folder = REAL_ROWS / "books"
    if not folder.is_dir():
        pytest.skip(NO_REAL_ROWS)
    books, reviews = folder / "books_data.csv", folder / "Books_rating.csv"
    assert (oracle.rejected(books, "books"), oracle.rejected(reviews, "reviews")) == ([], [])
    assert sum(1 for _ in rows(books, ["Title"])) == 1398
    assert sum(1 for _ in rows(reviews, ["Title"])) == 1423
