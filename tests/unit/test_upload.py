"""All batches of a file are taken once each, whatever is interrupted, and none is left out."""

import contextlib
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from booksan_client.state import Journal, fingerprint
from booksan_client.upload import IN_FLIGHT, Sent, upload, upload_again
from booksan_common.cutter import Header, open_source, read_header
from booksan_common.errors import InputError

pytestmark = pytest.mark.timeout(60)

#: Seconds after which a thread that waits for another gives up, so that a test cannot hang.
PATIENCE = 30
HEADER = b"Title,authors\n"


class Stop(Exception):
    """What a test ends an upload with."""


class Server:
    """Takes batches; what it does with each can be changed."""

    def __init__(self, act: Callable[[int], object] = lambda number: None) -> None:
        self.act = act
        self.seen: list[tuple[int, bytes]] = []
        self.now = self.most = 0
        self._lock = threading.Lock()

    def put(self, number: int, data: bytes) -> None:
        with self._lock:
            self.seen.append((number, data))
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            self.act(number)
        finally:
            with self._lock:
                self.now -= 1

    @property
    def content(self) -> bytes:
        return b"".join(data for _, data in sorted(dict(self.seen).items()))

    @property
    def numbers(self) -> list[int]:
        return sorted(number for number, _ in self.seen)


class Files:
    """An input file and the journal beside it."""

    def __init__(self, directory: Path, content: bytes) -> None:
        self.path = directory / "books.csv"
        self.path.write_bytes(HEADER + content)
        self.journal_path = directory / "books.journal"
        self.fingerprint = fingerprint(self.path)
        self.content = content

    def header(self) -> Header:
        with open_source(self.path) as stream:
            return read_header(stream)

    @contextlib.contextmanager
    def journal(self) -> Iterator[Journal]:
        cut = {"batch_bytes": 20, "batch_lines": 100}
        journal = Journal(self.journal_path, self.fingerprint, cut)
        with contextlib.closing(journal):
            yield journal

    def upload(self, server: Server, look: Callable[[], object] = lambda: None) -> list[Sent]:
        with self.journal() as journal:
            return list(upload(self.path, self.header(), journal, server.put, look))

    def interrupted(self, server: Server, told: int) -> None:
        """An upload that ends after it has told of so many batches."""
        with self.journal() as journal:
            sending = upload(self.path, self.header(), journal, server.put, lambda: None)
            assert isinstance(sending, Generator)
            with contextlib.closing(sending):
                for _ in range(told):
                    next(sending)

    def taken(self) -> set[int]:
        with self.journal() as journal:
            return journal.taken


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Twelve batches of two rows."""
    return Files(tmp_path, b"".join(b"Book %02d,x\n" % number for number in range(24)))


def test_all_batches_are_sent_once_and_told_of(files: Files) -> None:
    server = Server()
    sent = files.upload(server)
    assert server.numbers == list(range(12))
    assert server.content == files.content
    assert sorted(each.number for each in sent) == list(range(12))
    assert all(each.new for each in sent)
    assert max(each.end for each in sent) == files.path.stat().st_size
    assert files.taken() == set(range(12))


def test_a_file_without_rows_has_no_batches(tmp_path: Path) -> None:
    server = Server()
    assert Files(tmp_path, b"").upload(server) == []
    assert server.seen == []


def test_pitfall_several_batches_are_on_their_way_at_once_but_not_more(files: Files) -> None:
    """Each waits until as many as are allowed are there; one at a time would break the barrier."""
    barrier = threading.Barrier(IN_FLIGHT)
    server = Server(lambda number: barrier.wait(PATIENCE))
    files.upload(server)
    assert server.most == IN_FLIGHT
    assert server.numbers == list(range(12))


def test_a_batch_is_in_the_journal_before_it_is_sent(files: Files) -> None:
    missing: list[int] = []

    def act(number: int) -> None:
        if b'"batch":%d,' % number not in files.journal_path.read_bytes():
            missing.append(number)

    files.upload(Server(act))
    assert missing == []


def test_a_batch_counts_as_taken_only_after_the_other_side_has_it(files: Files) -> None:
    early: list[int] = []

    def act(number: int) -> None:
        if b'"taken":%d}' % number in files.journal_path.read_bytes():
            early.append(number)

    files.upload(Server(act))
    assert early == []


def test_a_finished_upload_sends_nothing_again(files: Files) -> None:
    files.upload(Server())
    server = Server()
    sent = files.upload(server)
    assert server.seen == []
    assert sent == [Sent(11, files.path.stat().st_size, False)]


@pytest.mark.parametrize("stop_after", range(12))
def test_a_resumed_upload_repeats_only_what_was_in_flight(files: Files, stop_after: int) -> None:
    first, second = Server(), Server()
    files.interrupted(first, stop_after)
    taken = files.taken()
    assert len(taken) == stop_after
    files.upload(second)
    assert second.numbers == sorted(set(range(12)) - taken)
    assert len(set(first.numbers) & set(second.numbers)) <= IN_FLIGHT
    both = Server()
    both.seen = first.seen + second.seen
    assert both.content == files.content


def test_repeated_batches_have_the_same_bytes(files: Files) -> None:
    first, second = Server(), Server()
    files.interrupted(first, 1)
    files.upload(second)
    again = dict(second.seen)
    assert {number: data for number, data in first.seen if number in again} == {
        number: again[number] for number in first.numbers if number in again
    }


def test_a_gap_is_filled_and_what_came_after_it_is_not_sent_again(files: Files) -> None:
    files.upload(Server())
    lines = files.journal_path.read_bytes().splitlines(keepends=True)
    files.journal_path.write_bytes(b"".join(line for line in lines if b'"taken":4}' not in line))
    server = Server()
    sent = files.upload(server)
    assert server.numbers == [4]
    assert [(each.number, each.new) for each in sent] == [(3, False), (4, True)]


def test_pitfall_an_error_in_sending_ends_the_upload_with_that_error(files: Files) -> None:
    """Never with the batch left out and a normal end."""

    def act(number: int) -> None:
        if number == 5:
            raise Stop("refused")

    with pytest.raises(Stop, match="refused"):
        files.upload(Server(act))
    assert 5 not in files.taken()
    server = Server()
    files.upload(server)
    assert 5 in server.numbers


def test_pitfall_an_error_in_the_very_last_batch_is_not_lost(files: Files) -> None:
    def act(number: int) -> None:
        if number == 11:
            raise Stop

    with pytest.raises(Stop):
        files.upload(Server(act))
    assert 11 not in files.taken()


def test_pitfall_a_client_that_is_told_to_stop_does_not_end_as_if_all_was_sent(
    files: Files,
) -> None:
    """All that is on its way waits, as behind a full queue, until the look ends it."""
    stopped = threading.Event()

    def act(number: int) -> None:
        if not stopped.wait(PATIENCE):
            raise TimeoutError

    def look() -> None:
        stopped.set()
        raise Stop

    with pytest.raises(Stop):
        files.upload(Server(act), look)
    assert files.taken() == set()


def test_there_are_looks_while_everything_waits(files: Files) -> None:
    looked = threading.Event()
    looks: list[int] = []

    def act(number: int) -> None:
        if not looked.wait(PATIENCE):
            raise TimeoutError

    def look() -> None:
        looks.append(1)
        if len(looks) == 3:
            looked.set()

    assert len(files.upload(Server(act), look)) == 12


def test_after_an_error_nothing_is_on_its_way_any_more(files: Files) -> None:
    def act(number: int) -> None:
        if number == 0:
            raise Stop

    server = Server(act)
    with pytest.raises(Stop):
        files.upload(server)
    assert server.now == 0


def test_a_file_that_changed_since_is_refused(files: Files) -> None:
    files.upload(Server())
    files.path.write_bytes(HEADER + files.content + b"Book 24,x\n")
    files.fingerprint = fingerprint(files.path)
    server = Server()
    with pytest.raises(InputError, match="has changed"):
        files.upload(server)
    assert server.seen == []


def test_batches_are_compared_with_the_journal_before_they_are_sent_again(files: Files) -> None:
    """A change that the fingerprint does not show is found by the batch's own digest."""
    files.interrupted(Server(), 1)
    with files.journal() as journal:
        noted, taken = len(journal.entries), journal.taken
    victim = max(set(range(noted)) - taken)
    data = bytearray(files.path.read_bytes())
    data[len(HEADER) + victim * 20] = ord("L")
    files.path.write_bytes(data)
    server = Server()
    with pytest.raises(InputError, match=f"batch {victim} is not what it was"):
        files.upload(server)
    assert victim not in server.numbers


def test_pitfall_an_incomplete_last_row_does_not_take_its_batch_with_it(tmp_path: Path) -> None:
    for number, tail in enumerate((b"Book", b"Book 98", b'Book 98,"', b"Book 98,x", b"\n", b"\r")):
        (tmp_path / str(number)).mkdir()
        content = b"Book 97,x\n" * 5 + tail
        server = Server()
        Files(tmp_path / str(number), content).upload(server)
        assert server.content.rstrip(b"\r\n") == content.rstrip(b"\r\n")


def test_pitfall_a_line_break_inside_quotes_does_not_cut_a_record(tmp_path: Path) -> None:
    records = [b'"Book\n%d\r\n, ""x""",y\n' % number for number in range(10)]
    server = Server()
    Files(tmp_path, b"".join(records)).upload(server)
    assert [data for _, data in sorted(server.seen)] == records


def test_batches_that_got_lost_are_sent_again_as_they_were(files: Files) -> None:
    server = Server()
    files.upload(server)
    again = Server()
    with files.journal() as journal:
        count = upload_again(files.path, journal, [1, 7, 99], again.put)
    assert count == 2
    assert again.seen == [each for each in sorted(server.seen) if each[0] in (1, 7)]


def test_a_lost_batch_of_a_file_that_changed_is_not_sent_again(files: Files) -> None:
    files.upload(Server())
    content = files.path.read_bytes()
    files.path.write_bytes(content.replace(b"Book 03", b"Kook 03"))
    again = Server()
    with files.journal() as journal, pytest.raises(InputError, match="batch 1 is not what it was"):
        upload_again(files.path, journal, [1], again.put)
    assert again.seen == []
