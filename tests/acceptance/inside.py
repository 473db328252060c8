"""The command inside the test's own process: quick, for what is refused before anything starts."""

import signal
from collections.abc import Sequence
from pathlib import Path

from typer.testing import CliRunner

from booksan.cli import app
from tests.support.command import Ended, Place


def refuse(place: Place, arguments: Sequence[str | Path]) -> Ended:
    """Runs the command twice, the second time with `--json`; both must refuse in the same way."""
    plain = invoke(place, arguments)
    assert plain.out == ""
    document = invoke(place, [*arguments, "--json"])
    assert document.err == plain.err
    assert document.document == {"error": plain.message, "exit_code": plain.code}
    assert not place.leftovers()
    assert not place.processes()
    return plain


def invoke(place: Place, arguments: Sequence[str | Path]) -> Ended:
    """Runs the command once."""
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    # The command sets the second variable; the runner puts both back.
    env = {"XDG_STATE_HOME": str(place.state), "POLARS_MAX_THREADS": "1"}
    try:
        result = CliRunner().invoke(app, [*map(str, arguments)], env=env)
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
    assert isinstance(result.exception, SystemExit | None), result.exception
    assert "Traceback" not in result.output
    return Ended(result.exit_code, result.stdout, result.stderr)
