"""Dead letters: messages that could not be handled, kept with their error until a person looks."""

import json
import time
from pathlib import Path

from booksan.files import write_atomically
from booksan.messages import digest_of


def letter_id(body: bytes) -> str:
    return digest_of(body)


def keep_letter(root: Path, stage: str, shard: int, body: bytes, error: str) -> Path:
    """Both files are durable before the message may be acknowledged; doing it twice is harmless."""
    directory = root / "letters" / f"{stage}-{shard}"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{letter_id(body)}.msg"
    write_atomically(path, body)
    about = {"stage": stage, "shard": shard, "error": error, "time": int(time.time())}
    write_atomically(path.with_suffix(".json"), json.dumps(about, indent=2).encode())
    return path
