"""`python -m booksan_client` and the command `booksan-client`."""

import signal


def main() -> None:
    """Ctrl-C while the command is still being loaded ends it without a word."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from booksan_client import cli

    signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.main()


if __name__ == "__main__":
    main()
