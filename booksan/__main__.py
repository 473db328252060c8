"""`python -m booksan` and the command `booksan`."""

import signal

from booksan_common.commands import heed


def main() -> None:
    """Ctrl-C while the command is still being loaded ends it without a word."""
    heed(signal.SIG_DFL, signal.SIGINT)
    from booksan import cli

    heed(signal.default_int_handler, signal.SIGINT)
    cli.main()


if __name__ == "__main__":
    main()
