"""A gateway believes only what the home of its own cluster has signed."""

import base64
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from booksan.errors import UsageError
from booksan.spec import Spec
from booksan.tickets import (
    SECRET_ALSO_FILE,
    check_permit,
    load_keys,
    load_secret,
    open_ticket,
    sign_permit,
    sign_ticket,
)
from tests.unit.test_spec import make_spec

SECRET = bytes(range(32))
KEYS = (SECRET,)
OTHER = bytes(32)
printable = st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"]))


def test_a_ticket_opens_to_the_spec_it_was_signed_for() -> None:
    spec = make_spec(columns={"books": ("Titel", "Größe", "題名")})
    assert open_ticket(KEYS, sign_ticket(SECRET, spec)) == spec


def test_the_same_spec_gives_the_same_ticket() -> None:
    spec = make_spec()
    again = replace(spec, shards=dict(reversed(list(spec.shards.items()))))
    assert sign_ticket(SECRET, spec) == sign_ticket(SECRET, again)


def test_a_ticket_of_another_cluster_is_refused() -> None:
    with pytest.raises(UsageError, match="not signed by this cluster"):
        open_ticket(KEYS, sign_ticket(OTHER, make_spec()))


def test_a_ticket_that_is_cut_anywhere_is_refused() -> None:
    ticket = sign_ticket(SECRET, make_spec())
    for length in range(len(ticket)):
        with pytest.raises(UsageError):
            open_ticket(KEYS, ticket[:length])
        with pytest.raises(UsageError):
            open_ticket(KEYS, ticket[length + 1 :])


def test_a_ticket_with_one_other_character_is_refused() -> None:
    ticket = sign_ticket(SECRET, make_spec())
    for place, old in enumerate(ticket):
        for new in "A0.=é":
            if new != old:
                with pytest.raises(UsageError):
                    open_ticket(KEYS, ticket[:place] + new + ticket[place + 1 :])


def test_a_forged_spec_under_an_honest_signature_is_refused() -> None:
    _, _, signature = sign_ticket(SECRET, make_spec()).partition(".")
    forged = base64.urlsafe_b64encode(make_spec(expires=2**40).json.encode()).decode()
    with pytest.raises(UsageError):
        open_ticket(KEYS, f"{forged}.{signature}")


@settings(deadline=None, max_examples=50)
@given(ticket=printable)
def test_any_other_text_is_no_ticket(ticket: str) -> None:
    with pytest.raises(UsageError):
        open_ticket(KEYS, ticket)


def test_a_permit_opens_its_own_source_only() -> None:
    spec = make_spec()
    check_permit(KEYS, spec, "reviews", sign_permit(SECRET, spec, "reviews"))
    with pytest.raises(UsageError, match="'reviews' are not taken yet"):
        check_permit(KEYS, spec, "reviews", sign_permit(SECRET, spec, "books"))


@pytest.mark.parametrize(
    "other",
    [
        make_spec("client-2"),
        make_spec(version=2),
        make_spec(expires=1),
        make_spec(shards={**make_spec().shards, "q3-join": 9}),
    ],
)
def test_a_permit_of_another_run_is_refused(other: Spec) -> None:
    permit = sign_permit(SECRET, other, "reviews")
    with pytest.raises(UsageError):
        check_permit(KEYS, make_spec(), "reviews", permit)


def test_a_permit_of_another_cluster_is_refused() -> None:
    permit = sign_permit(OTHER, make_spec(), "reviews")
    with pytest.raises(UsageError):
        check_permit(KEYS, make_spec(), "reviews", permit)


def test_no_permit_and_a_cut_permit_are_refused() -> None:
    spec = make_spec()
    permit = sign_permit(SECRET, spec, "reviews")
    for wrong in (None, "", permit[:-1], permit[1:], permit + "0", permit.upper(), "é"):
        with pytest.raises(UsageError):
            check_permit(KEYS, spec, "reviews", wrong)


def test_a_signature_serves_one_purpose() -> None:
    """A permit's signature under a ticket's payload, or the other way round, is worth nothing."""
    spec = make_spec()
    payload, _, signature = sign_ticket(SECRET, spec).partition(".")
    with pytest.raises(UsageError):
        open_ticket(KEYS, f"{payload}.{sign_permit(SECRET, spec, 'books')}")
    with pytest.raises(UsageError):
        open_ticket(KEYS, f"{spec.digest}/books.{sign_permit(SECRET, spec, 'books')}")
    with pytest.raises(UsageError):
        check_permit(KEYS, spec, "books", signature)


def test_the_secret_is_made_once_and_only_the_owner_reads_it(tmp_path: Path) -> None:
    secret = load_secret(tmp_path)
    assert len(secret) == 32
    assert load_secret(tmp_path) == secret
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


def test_two_clusters_have_different_secrets(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    assert load_secret(tmp_path / "a") != load_secret(tmp_path / "b")


def test_all_who_begin_at_the_same_time_get_the_same_secret(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        secrets = set(pool.map(load_secret, [tmp_path] * 32))
    assert len(secrets) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


def test_the_first_key_signs_and_all_are_accepted(tmp_path: Path) -> None:
    assert load_keys(tmp_path) == (load_secret(tmp_path),)
    (tmp_path / SECRET_ALSO_FILE).write_bytes(OTHER)
    assert load_keys(tmp_path) == (load_secret(tmp_path), OTHER)
    spec = make_spec()
    for key in (SECRET, OTHER):
        assert open_ticket((SECRET, OTHER), sign_ticket(key, spec)) == spec
        check_permit((SECRET, OTHER), spec, "reviews", sign_permit(key, spec, "reviews"))
    with pytest.raises(UsageError):
        open_ticket((SECRET,), sign_ticket(OTHER, spec))
    with pytest.raises(UsageError):
        check_permit((SECRET,), spec, "reviews", sign_permit(OTHER, spec, "reviews"))
