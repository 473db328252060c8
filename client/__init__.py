"""The command `booksan-client` as a package of its own: `booksan_client_alone`, once installed.

booksan brings the modules of the client too. Two installed packages must not own the same files, or
whoever removes one breaks the other; so these stay in a directory of their own, beside this file.
"""

import sys
from pathlib import Path


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    from booksan_client.__main__ import main as client

    client()
