"""Signed words of the home that a gateway can check without asking anybody.

A ticket says what a client's run is pinned to, a permit that batches of a source may come now.
Both are `payload.signature`, signed with the cluster's secret. While it is being changed there are
two: the first key signs, and what any of them signed is accepted.
"""

import base64
import contextlib
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path

from booksan.errors import UsageError
from booksan.spec import Spec, spec_from_json
from booksan_common.files import sync_directory

#: In a host's data directory: the secret that signs, and one that is accepted beside it.
SECRET_FILE = "secret"
SECRET_ALSO_FILE = "secret-also"


def load_secret(root: Path) -> bytes:
    """The cluster's secret, made on first use; whoever comes second reads what the first wrote."""
    path = root / SECRET_FILE
    if not path.exists():
        temporary = root / f".secret-{secrets.token_hex(8)}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())
        # A link appears whole or not at all, and never replaces an earlier secret.
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
        temporary.unlink()
        sync_directory(root)
    return path.read_bytes()


def load_keys(root: Path) -> tuple[bytes, ...]:
    """All secrets that hold at present: the first signs, and each is accepted."""
    also = root / SECRET_ALSO_FILE
    return (load_secret(root), *([also.read_bytes()] if also.exists() else []))


def _bytes(text: str) -> bytes:
    """Whatever a client sends has bytes, and only the right ones have the right signature."""
    return text.encode(errors="surrogatepass")


def _signature(secret: bytes, purpose: str, payload: bytes) -> str:
    return hmac.new(secret, purpose.encode() + b"\0" + payload, hashlib.sha256).hexdigest()


def _signed(given: str, expected: Iterator[str]) -> bool:
    return any(hmac.compare_digest(_bytes(given), one.encode()) for one in expected)


def sign_ticket(secret: bytes, spec: Spec) -> str:
    payload = base64.urlsafe_b64encode(spec.json.encode())
    return f"{payload.decode()}.{_signature(secret, 'ticket', payload)}"


def open_ticket(keys: Sequence[bytes], ticket: str) -> Spec:
    payload, _, signature = ticket.partition(".")
    if not _signed(signature, (_signature(key, "ticket", _bytes(payload)) for key in keys)):
        raise UsageError("the ticket was not signed by this cluster; create the client again")
    return spec_from_json(base64.urlsafe_b64decode(payload).decode())


def sign_permit(secret: bytes, spec: Spec, source: str) -> str:
    return _signature(secret, "permit", f"{spec.digest}/{source}".encode())


def check_permit(keys: Sequence[bytes], spec: Spec, source: str, permit: str | None) -> None:
    if permit is None or not _signed(permit, (sign_permit(key, spec, source) for key in keys)):
        raise UsageError(
            f"batches of {source!r} are not taken yet: the sources before it must be complete"
        )
