"""python -m booksan.broker DIRECTORY [--port PORT]: keeps a RabbitMQ node running."""

import argparse
import logging
import sys
from pathlib import Path

from booksan.broker.node import Keeper
from booksan.errors import BooksanError


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m booksan.broker",
        description="Runs a RabbitMQ node of its own in a directory, and brings it back when it "
        "dies. How to reach it stands in DIRECTORY/broker.json.",
    )
    parser.add_argument("directory", type=Path, help="where the node keeps all that it writes")
    parser.add_argument("--port", type=int, default=0, help="of 127.0.0.1; a free one by default")
    arguments = parser.parse_args()
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    try:
        Keeper(arguments.directory, arguments.port).run()
    except BooksanError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
