"""The commands of a client; `booksan` has them too."""

from pathlib import Path
from typing import Annotated

import typer

import booksan_client
from booksan_client import completion
from booksan_common.commands import SELDOM, SERVERS, SETTINGS, Commands, notes, option, version

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
    help="Sends files to a booksan server and fetches the answers.",
)

#: Codes of commands that speak with a server.
_SERVER_CODES = (7, 8)

Server = Annotated[
    list[str] | None,
    option(
        "URL",
        "A server; repeat it for several, of which any that works is used. "
        "BOOKSAN_SERVER names them too, with commas.",
        default="http://127.0.0.1:7300",
        panel=SERVERS,
    ),
]
TokenFile = Annotated[
    Path | None,
    option("FILE", "File with the servers' token.", default="$BOOKSAN_TOKEN", panel=SERVERS),
]
OperatorTokenFile = Annotated[
    Path | None,
    option(
        "FILE", "File with the operator's token.", default="$BOOKSAN_OPERATOR_TOKEN", panel=SERVERS
    ),
]
Patience = Annotated[
    float,
    option(
        "SECONDS", "Give up after so long without any success at any server.", panel=SERVERS, min=0
    ),
]


Client = Annotated[
    str,
    typer.Argument(metavar="CLIENT", help="The client's id.", autocompletion=completion.clients),
]
Dataset = Annotated[
    str,
    typer.Argument(
        metavar="DATASET", help="The name of the data set.", autocompletion=completion.datasets
    ),
]
Files = Annotated[
    list[Path],
    typer.Argument(
        # An unreadable file is found later, as a matter of the input and not of usage.
        readable=False,
        metavar="FILES",
        help="Its files in order, plain or .gz.",
    ),
]
Out = Annotated[Path, option("DIR", "For the answers, q1.csv and so on.")]
Settings = Annotated[
    list[str] | None,
    option(
        "NAME=VALUE",
        "A parameter, e.g. q3.min_reviews=5; repeat it for more.",
        "--set",
        autocompletion=completion.settings,
    ),
]
MaxRejected = Annotated[
    int | None,
    option("N", "Stop when more rows are rejected.", default="no limit", min=0),
]
BatchBytes = Annotated[
    int | None, typer.Option(min=1, max=4 * 1024 * 1024, help="Size of a batch.", hidden=True)
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout, nothing else.")
]
Format = Annotated[
    str,
    option(
        "FORMAT",
        "Of the answers: csv, json or parquet.",
        "--format",
        autocompletion=completion.formats,
    ),
]

Queries = Annotated[
    list[str] | None,
    option(
        "NAME",
        "Show and write only this query's answer, e.g. q3; repeat it for more.",
        "--query",
        default="all",
        autocompletion=completion.queries,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Show nothing but errors; the answers are in files."),
]

#: Seconds that questions about a run may take; its upload is more patient.
_SHORT = 30.0


_Id = Annotated[
    str | None,
    option("NAME", "The client's id.", "--id", default="made up", panel=SELDOM),
]

_Compress = Annotated[
    str,
    option(
        "HOW",
        "Batches on their way: none or gzip.",
        panel=SELDOM,
        autocompletion=completion.compressions,
    ),
]


@app.command(
    epilog=notes(
        "booksan submit books books_data.csv Books_rating.csv --out answers",
        codes=(3, 4, 5, 6, *_SERVER_CODES),
    )
)
def submit(
    dataset: Dataset,
    files: Files,
    server: Server = None,
    out: Annotated[
        Path | None,
        option("DIR", "For the answers, q1.csv and so on.", default="none, with --detach"),
    ] = None,
    form: Format = "csv",
    queries: Queries = None,
    settings: Settings = None,
    max_rejected: MaxRejected = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Leave after the upload; `results` fetches later.")
    ] = False,
    id: _Id = None,
    new: Annotated[
        bool,
        typer.Option("--new", help="Begin anew, and cancel an unfinished run of the same files."),
    ] = False,
    compress: _Compress = "none",
    token_file: TokenFile = None,
    patience: Patience = 300.0,
    batch_bytes: BatchBytes = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Sends the files of a data set to a server and writes its answers.

    The same command after Ctrl-C, a kill or a crash goes on where it was.
    """
    from booksan_client.connect import ServerOptions
    from booksan_client.submit import SubmitRequest, submit_command

    request = SubmitRequest(
        dataset=dataset,
        files=files,
        server=ServerOptions(server or (), token_file, None, patience),
        out=out,
        format=form,
        settings=settings or (),
        max_rejected=max_rejected,
        detach=detach,
        id=id,
        new=new,
        batch_bytes=batch_bytes,
        compress=compress,
        queries=queries or (),
        quiet=quiet,
    )
    raise typer.Exit(submit_command(request, as_json=as_json))


@app.command(epilog=notes("booksan status --watch", "booksan status CLIENT", codes=_SERVER_CODES))
def status(
    client: Annotated[
        str | None,
        typer.Argument(
            metavar="[CLIENT]",
            help="Its id.",
            show_default="all of yours",
            autocompletion=completion.clients,
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on showing it until all are done or failed.")
    ] = False,
    server: Server = None,
    token_file: TokenFile = None,
    operator_token_file: OperatorTokenFile = None,
    patience: Patience = _SHORT,
    as_json: Json = False,
) -> None:
    """Shows how far all your runs are; of one, each source and stage, and where it is stalled."""
    from booksan_client.connect import ServerOptions
    from booksan_client.watch import status_command

    options = ServerOptions(server or (), token_file, operator_token_file, patience)
    raise typer.Exit(status_command(client, options, watch=watch, as_json=as_json))


@app.command(epilog=notes("booksan results CLIENT --out answers", codes=(3, 5, 6, *_SERVER_CODES)))
def results(
    client: Client,
    out: Out,
    form: Format = "csv",
    queries: Queries = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave them at the server, to be fetched again.")
    ] = False,
    server: Server = None,
    token_file: TokenFile = None,
    operator_token_file: OperatorTokenFile = None,
    patience: Patience = 300.0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Waits for the answers of a run whose upload is complete, and writes them."""
    from booksan_client.connect import ServerOptions
    from booksan_client.manage import results_command

    options = ServerOptions(server or (), token_file, operator_token_file, patience)
    code = results_command(
        client,
        out,
        form,
        options,
        queries=queries or (),
        keep=keep,
        quiet=quiet,
        as_json=as_json,
    )
    raise typer.Exit(code)


@app.command(epilog=notes("booksan cancel CLIENT", codes=_SERVER_CODES[:1]))
def cancel(
    client: Client,
    server: Server = None,
    token_file: TokenFile = None,
    operator_token_file: OperatorTokenFile = None,
    patience: Patience = _SHORT,
    as_json: Json = False,
) -> None:
    """Gives a run up: everything of it is deleted, here and at the server."""
    from booksan_client.connect import ServerOptions
    from booksan_client.manage import cancel_command

    options = ServerOptions(server or (), token_file, operator_token_file, patience)
    raise typer.Exit(cancel_command(client, options, as_json=as_json))


@app.command(
    "list",
    epilog=notes("booksan list --operator-token-file operator-token", codes=_SERVER_CODES[:1]),
)
def list_clients(
    server: Server = None,
    operator_token_file: OperatorTokenFile = None,
    patience: Patience = _SHORT,
    as_json: Json = False,
) -> None:
    """Shows all clients of all hosts; for the operator."""
    from booksan_client.connect import ServerOptions
    from booksan_client.manage import list_command

    options = ServerOptions(server or (), None, operator_token_file, patience)
    raise typer.Exit(list_command(options, as_json=as_json))


#: The commands as a program of their own.
alone = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
)
alone.add_typer(app)


@alone.callback()
def booksan_client_app(
    version: Annotated[bool, version("booksan-client", booksan_client.__version__)] = False,
) -> None:
    """Sends files to a booksan server and fetches the answers."""


def main() -> None:
    alone()
