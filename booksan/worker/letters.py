"""Dead letters: messages that could not be handled, kept with their error until a person looks."""

import json
import time
from pathlib import Path
from typing import Any

from booksan.errors import MessageError
from booksan.files import write_atomically
from booksan.messages import decode, digest_of


def letter_id(body: bytes) -> str:
    return digest_of(body)


def letter_path(root: Path, stage: str, shard: int, letter: str) -> Path:
    return root / "letters" / f"{stage}-{shard}" / f"{letter}.msg"


def keep_letter(root: Path, stage: str, shard: int, body: bytes, error: str) -> Path:
    """Both files are durable before the message may be acknowledged; doing it twice is harmless."""
    path = letter_path(root, stage, shard, letter_id(body))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, body)
    about = {"stage": stage, "shard": shard, "error": error, "time": int(time.time())}
    about |= _contents(body)
    write_atomically(path.with_suffix(".json"), json.dumps(about, indent=2).encode())
    return path


def letter_error(root: Path, stage: str, shard: int, letter: str) -> str:
    """Why it could not be handled; a person may have removed what told it."""
    path = letter_path(root, stage, shard, letter).with_suffix(".json")
    try:
        return str(json.loads(path.read_text())["error"])
    except (OSError, ValueError, KeyError, TypeError):
        return "its error was not kept"


def remove_letter(root: Path, stage: str, shard: int, letter: str) -> None:
    """The message goes last, so that what is listed can be shown."""
    path = letter_path(root, stage, shard, letter)
    path.with_suffix(".json").unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _contents(body: bytes) -> dict[str, Any]:
    try:
        message = decode(body)
    except MessageError:
        return {"client": None}
    return {
        "client": message.client,
        "sender": message.sender,
        "kind": message.kind.value,
        "seq": message.seq,
    }
