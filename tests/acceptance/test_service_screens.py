"""What a person at a terminal sees of runs at a service, and of the service itself."""

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from booksan.datasets import dataset_named
from booksan.generate.books import generate_books
from booksan.messages import Kind, Message, digest_of, encode
from booksan.spec import Spec
from booksan.worker.failures import keep_letter
from tests.support.command import PATIENCE, QUERIES, Place, Words, settings, wait_until
from tests.support.hosts import command, place_for_hosts, two_hosts
from tests.support.screen import COLOUR, CTRL_C, Screen, check_screen, check_tables

BOOKS = dataset_named("books")
OPERATOR = {"BOOKSAN_OPERATOR_TOKEN": "the-token-of-the-operator"}
PARAMS = {"q2.decades": 5, "q3.min_reviews": 50}
HEADINGS = [f"{query}: " for query in QUERIES]
HOSTS = ("alpha", "beta")
STAGES = tuple(stage.name for stage in BOOKS.stages)
WORKERS = tuple(f"{stage}.0" for stage in STAGES)
SOURCES = tuple(BOOKS.source)
PARAMETERS = tuple(BOOKS.defaults)

#: Columns, rows, and whether there are colours.
SIZES = [(80, 24, True), (80, 24, False), (120, 50, True), (120, 50, False)]
TWO_SIZES = [
    pytest.param(80, 24, True, id="80x24-colour"),
    pytest.param(120, 50, False, id="120x50-plain"),
]


@dataclass(frozen=True)
class Service:
    """Two hosts, one run that waits for the rest of its files, one that is done, and a letter."""

    place: Place
    files: tuple[Path, Path]
    servers: dict[str, str]
    #: What stands for a name in the words of a command.
    names: dict[str, str]

    def screen(self, *words: str | Path, columns: int, rows: int, colour: bool) -> Screen:
        return Screen(
            [sys.executable, "-m", "booksan", *(self.names.get(str(word), word) for word in words)],
            columns=columns,
            rows=rows,
            colour=colour,
            env={"XDG_STATE_HOME": str(self.place.state)} | OPERATOR | self.servers,
        )

    def submit(self, top: int) -> Words:
        """Small batches, so that there is a way to be seen; a run for each number."""
        more = ("--batch-bytes", "20000", *settings(PARAMS | {"q4.top": top}))
        return ["submit", "books", *self.files, "--out", self.place.root / f"top-{top}", *more]

    def begin(self, top: int) -> str:
        """A run of which only a part is sent; its id."""
        before = self.clients()
        with self.screen(*self.submit(top), columns=100, rows=30, colour=False) as screen:
            screen.wait_until(lambda: bool(re.search(r"upload reviews +━", screen._picture())))
            screen.press(CTRL_C)
            assert screen.end() == 130, screen.transcript
        check_screen(screen.transcript)
        (found,) = self.clients().keys() - before.keys()
        return found

    def clients(self) -> dict[str, str]:
        """The states of this user's runs."""
        found = command(self.place, "status", "--json", env=self.servers).document["clients"]
        return {each["id"]: each.get("state", "") for each in found}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    root = tmp_path_factory.mktemp("service")
    files = generate_books(root, books=1_500, reviews=12_000, seed=1).paths
    with place_for_hosts(root) as place:
        words = ("cluster", "up", two_hosts(root), "--any-ports", "--wait", str(PATIENCE))
        up = command(place, *words, "--json", env=OPERATOR)
        assert up.code == 0, up.err
        servers = {"BOOKSAN_SERVER": ",".join(up.document["gateways"].values())}
        found = Service(place, files, servers, {})
        done = command(place, *found.submit(1), "--detach", "--json", env=servers)
        assert done.code == 0, done.err
        found.names.update(DONE=done.document["id"], LETTER=dead_letter(place))
        found.names["RUN"] = found.begin(2)
        wait_until(lambda: found.clients()[found.names["DONE"]] == "done")
        yield found
        assert command(place, "cluster", "down", "--wipe").code == 0


def dead_letter(place: Place) -> str:
    """One of a run that has nothing to do with the hosts; the beginning of its id."""
    root = place.state / "booksan/runs/r1"
    root.mkdir(parents=True)
    (root / "run.json").write_text("{}")
    shards = dict.fromkeys(STAGES, 1)
    spec = Spec("c1", "books", BOOKS.version, BOOKS.defaults, {}, shards, int(time.time()) + 3600)
    digest = digest_of(spec.digest, 7)
    message = Message(spec, "gateway/books", Kind.BATCH, 7, digest, {"rows": 0}, b"")
    keep_letter(root, "q1-filter", 0, encode(message), f"ValueError: {'the moon is full, ' * 9}!")
    (found,) = root.glob("letters/*/*.msg")
    return found.stem[:12]


def squeezed(text: str) -> str:
    """Without borders and breaks, wherever a line or a cell is wrapped."""
    return re.sub(r"[\s│┃]+", "", text)


def check_names(text: str, names: tuple[str, ...], known: Mapping[str, str]) -> None:
    """All of them are there, and nothing is cut."""
    assert "…" not in text
    for name in (known.get(each, each) for each in names):
        assert squeezed(name) in squeezed(text), f"no {name!r} in\n{text}"


#: The words of a command, the tables with borders that it shows, and the names that they hold.
SHOWN: dict[str, tuple[tuple[str, ...], int, tuple[str, ...]]] = {
    "status": (("status",), 1, ("RUN", "DONE", "uploading", "done", "5 of 5")),
    "status of one": (("status", "RUN"), 2, ("RUN", *SOURCES, *STAGES)),
    "status at its end": (("status", "DONE"), 2, ("DONE", "books, done", *SOURCES, *STAGES)),
    "cluster status": (("cluster", "status"), 0, (*HOSTS, *WORKERS, "gateway.0", "queues: ")),
    "inspect": (("inspect", "RUN"), 4, ("RUN", *WORKERS[1:3], "gateway/reviews", "taking")),
    "inspect --sql": (
        ("inspect", "RUN", "--sql", "select * from progress"),
        1,
        (*HOSTS, *STAGES[1:3], "gateway/reviews", "of_batches"),
    ),
    "letters list": (("letters", "list"), 1, ("LETTER", "the moon is full, !")),
    "letters show": (("letters", "show", "LETTER"), 0, ("LETTER", "gateway/books", "no rows")),
    "list": (("list",), 1, ("RUN", "DONE", "uploading", "alpha")),
    "datasets": (("datasets",), 0, ("aoe2", "books", "airports-codepublic.csv")),
    "datasets books": (("datasets", "books"), 0, ("review/score (a number)", *PARAMETERS)),
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_shown_once_fits_and_is_whole(service: Service, name: str) -> None:
    words, tables, names = SHOWN[name]
    with ExitStack() as stack:
        screens = [
            stack.enter_context(service.screen(*words, columns=columns, rows=rows, colour=colour))
            for columns, rows, colour in SIZES
        ]
        for screen, (_, _, colour) in zip(screens, SIZES, strict=True):
            assert screen.end() == 0, screen.transcript
            check_screen(screen.transcript)
            assert check_tables(screen.transcript) == tables, screen.transcript
            check_names(screen.transcript, names, service.names)
            assert colour or not COLOUR.search(screen.raw)


def steady(text: str) -> Callable[[str], bool]:
    """Of a picture with whole tables: what is painted comes in pieces."""

    def found(picture: str) -> bool:
        try:
            check_tables(picture)
        except AssertionError:
            return False
        return text in picture

    return found


@pytest.mark.parametrize(("columns", "rows", "colour"), TWO_SIZES)
def test_a_run_is_watched_from_three_terminals_and_leaves_whole_answers(
    service: Service, columns: int, rows: int, colour: bool
) -> None:
    run = service.begin(top=columns)
    with ExitStack() as stack:

        def watched(*words: str | Path) -> Screen:
            found = service.screen(*words, columns=columns, rows=rows, colour=colour)
            return stack.enter_context(found)

        # The run of the others never ends, so that of this test is watched alone too.
        one, every = watched("status", run, "--watch"), watched("status", "--watch")
        cluster = watched("cluster", "status", "--watch")
        pictures = {one: f"{run}: books, uploading", every: run, cluster: "beta"}
        for screen, text in pictures.items():
            whole = steady(text)
            screen.wait_until(lambda screen=screen, whole=whole: whole(screen._picture()))  # type: ignore[misc]
        submit = watched(*service.submit(top=columns))
        assert submit.end() == 0
        assert one.end() == 0
        every.wait_until(lambda: run not in every._picture() or "5 of 5" in every._picture())
        for screen in (every, cluster):
            screen.press(CTRL_C)
            assert screen.end() == 130
    check_screen(submit.transcript, HEADINGS)
    assert check_tables(submit.transcript) == len(QUERIES)
    assert "whole run" not in submit.transcript
    assert "the answers are in" in " ".join(submit.transcript.split())
    assert bool(COLOUR.search(submit.raw)) == colour
    check_waiting(submit)
    # What was painted over is gone; the last picture stays, if there still was one.
    assert one.transcript.startswith(f"{run}: books, done")
    assert check_tables(one.transcript) == (0 if "were fetched" in one.transcript else 2)
    check_screen(cluster.transcript)
    check_names(cluster.transcript, HOSTS, service.names)
    assert "interrupted" in every.transcript
    for screen in (one, every, cluster):
        check_screen(screen.transcript)
        assert not COLOUR.search(screen.raw)


def check_waiting(screen: Screen) -> None:
    """While it goes, what a stage waits for is named in full, if any was seen to wait."""
    waiting = {
        found[1]
        for picture in screen.frames
        for line in picture.splitlines()
        if (found := re.search(r"waiting for (.*)", line))
    }
    for words in waiting:
        names = re.sub(r" and \d+ more$", "", words).split(", ")
        assert set(names) <= {*SOURCES, *STAGES}, words
