"""Servers take turns, and one that fails is left alone for longer and longer."""

import pytest

from booksan_client.caller import Choice, Servers
from booksan_client.wire import check_url
from booksan_common.errors import UsageError


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def servers(clock: Clock, *urls: str) -> Servers:
    return Servers(urls, first_pause=1.0, most_pause=8.0, clock=clock, chance=lambda: 1.0)


def test_all_healthy_servers_take_turns(clock: Clock) -> None:
    three = servers(clock, "a", "b", "c")
    chosen = [three.choose().server for _ in range(9)]
    assert sorted(filter(None, chosen)) == [*"aaabbbccc"]


def test_a_server_that_was_just_asked_in_vain_is_avoided_if_there_is_another(clock: Clock) -> None:
    assert {servers(clock, "a", "b").choose(avoid="a").server for _ in range(4)} == {"b"}
    assert servers(clock, "a").choose(avoid="a").server == "a"


def test_a_failed_server_is_left_alone_and_then_tried_again(clock: Clock) -> None:
    two = servers(clock, "a", "b")
    two.failed("a")
    assert {two.choose().server for _ in range(4)} == {"b"}
    clock.now += 1.0
    assert {two.choose().server for _ in range(4)} == {"a", "b"}


def test_the_pause_doubles_with_each_failure_up_to_a_bound_and_success_ends_it(
    clock: Clock,
) -> None:
    one = servers(clock, "a")
    for pause in (1.0, 2.0, 4.0, 8.0, 8.0):
        one.failed("a")
        assert one.choose() == Choice(None, pause)
        clock.now += pause
    one.worked("a")
    one.failed("a")
    assert one.choose() == Choice(None, 1.0)


def test_requests_that_fail_together_count_as_one_failure(clock: Clock) -> None:
    one = servers(clock, "a")
    for _ in range(4):
        one.failed("a")
    assert one.choose() == Choice(None, 1.0)


def test_pauses_vary_so_that_clients_do_not_come_back_all_at_once(clock: Clock) -> None:
    one = Servers(["a"], first_pause=1.0, clock=clock, chance=lambda: 0.0)
    one.failed("a")
    assert one.choose().wait == 0.5


def test_a_server_that_moved_is_found_at_its_new_place(clock: Clock) -> None:
    places: list[str] = []
    moving = Servers(lambda: places, first_pause=1.0, clock=clock)
    assert moving.choose().server is None
    places.append("old")
    moving.failed("old")
    places[:] = ["new"]
    assert moving.choose().server == "new"


@pytest.mark.parametrize(
    "url", ["", "localhost:7300", "ftp://a", "http://", "http://a:0x", "http://a?b=c", "http://u@a"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="is not a server's address"):
        check_url(url)


def test_an_address_may_have_a_path_and_ends_without_a_slash() -> None:
    assert check_url("https://example.org:8443/books/") == "https://example.org:8443/books"
