"""Tokens and secrets: read from files and the environment, never from the command line."""

import os
import re
import secrets
from pathlib import Path

from booksan_client.errors import UsageError

TOKEN = "BOOKSAN_TOKEN"
OPERATOR_TOKEN = "BOOKSAN_OPERATOR_TOKEN"

_PRINTABLE = re.compile(r"[\x21-\x7e]+")


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def read_token(file: Path | None, variable: str) -> str | None:
    """The token in a file, or else in the environment; its text is never part of an error."""
    if file is not None:
        try:
            text, where = file.read_text("utf-8"), str(file)
        except OSError as error:
            raise UsageError(f"{file}: the token cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise UsageError(f"{file}: holds no token, which is printable ASCII") from None
    else:
        text, where = os.environ.get(variable, ""), variable
        if not text.strip():
            return None
    token = text.strip()
    if not _PRINTABLE.fullmatch(token):
        raise UsageError(f"{where}: holds no token, which is one line of printable ASCII")
    return token


def authorization(token: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}
