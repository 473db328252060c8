"""The commands of a client; `booksan` has them too."""

from pathlib import Path
from typing import Annotated

import typer

EXIT_CODES = (
    "Exit codes: 0 done; 1 internal error; 2 usage; 3 the input is not usable; 4 too many rejected "
    "rows; 5 the run failed; 6 no space left; 7 the server cannot be reached or refuses; 8 the run "
    "is gone at the server; 130 interrupted."
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Sends files to a booksan server and fetches the answers.",
)

Server = Annotated[
    list[str] | None,
    typer.Option(
        metavar="URL",
        help="A server; repeat it for several, of which any that works is used. "
        "BOOKSAN_SERVER names them too, with commas.",
        show_default="http://127.0.0.1:7300",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="File with the servers' token.", show_default="$BOOKSAN_TOKEN"
    ),
]
OperatorTokenFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="File with the operator's token.",
        show_default="$BOOKSAN_OPERATOR_TOKEN",
    ),
]
Patience = Annotated[
    float,
    typer.Option(
        min=0, metavar="SECONDS", help="Give up after so long without any success at any server."
    ),
]


def _own_clients(incomplete: str) -> list[str]:
    """For the shell's completion."""
    from booksan_client.state import known_clients

    return [state.id for _, state in known_clients() if state.id.startswith(incomplete)]


Client = Annotated[
    str,
    typer.Argument(metavar="CLIENT", help="The client's id.", autocompletion=_own_clients),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout, nothing else.")
]
Format = Annotated[
    str, typer.Option("--format", metavar="FORMAT", help="Of the answers: csv, json or parquet.")
]

#: Seconds that questions about a run may take; its upload is more patient.
_SHORT = 30.0


@app.command(epilog=EXIT_CODES)
def submit(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="The name of the data set.")],
    files: Annotated[
        list[Path],
        typer.Argument(
            readable=False,
            metavar="FILES",
            help="Its files in order, plain or .gz.",
        ),
    ],
    server: Server = None,
    out: Annotated[
        Path | None, typer.Option(help="Directory for the answers, q1.csv and so on.")
    ] = None,
    form: Format = "csv",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter, e.g. q3.min_reviews=5."),
    ] = None,
    max_rejected: Annotated[
        int | None,
        typer.Option(min=0, help="Stop when more rows are rejected.", show_default="no limit"),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Leave after the upload; `results` fetches later.")
    ] = False,
    id: Annotated[
        str | None,
        typer.Option("--id", metavar="NAME", help="The client's id.", show_default="made up"),
    ] = None,
    new: Annotated[
        bool,
        typer.Option("--new", help="Begin anew, and cancel an unfinished run of the same files."),
    ] = False,
    compress: Annotated[
        str, typer.Option(metavar="HOW", help="Batches on their way: none or gzip.")
    ] = "none",
    token_file: TokenFile = None,
    patience: Patience = 300.0,
    batch_bytes: Annotated[
        int | None, typer.Option(min=1, max=4 * 1024 * 1024, help="Size of a batch.", hidden=True)
    ] = None,
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
    )
    raise typer.Exit(submit_command(request, as_json=as_json))


@app.command(epilog=EXIT_CODES)
def status(
    client: Annotated[
        str | None,
        typer.Argument(
            metavar="[CLIENT]",
            help="Its id.",
            show_default="all of yours",
            autocompletion=_own_clients,
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on showing it until the run is done or failed.")
    ] = False,
    server: Server = None,
    token_file: TokenFile = None,
    operator_token_file: OperatorTokenFile = None,
    patience: Patience = _SHORT,
    as_json: Json = False,
) -> None:
    """Shows how far each source and stage of a run is, and where it is stalled."""
    from booksan_client.connect import ServerOptions
    from booksan_client.watch import status_command

    options = ServerOptions(server or (), token_file, operator_token_file, patience)
    raise typer.Exit(status_command(client, options, watch=watch, as_json=as_json))


@app.command(epilog=EXIT_CODES)
def results(
    client: Client,
    out: Annotated[Path, typer.Option(help="Directory for the answers, q1.csv and so on.")],
    form: Format = "csv",
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave them at the server, to be fetched again.")
    ] = False,
    server: Server = None,
    token_file: TokenFile = None,
    operator_token_file: OperatorTokenFile = None,
    patience: Patience = 300.0,
    as_json: Json = False,
) -> None:
    """Waits for the answers of a run whose upload is complete, and writes them."""
    from booksan_client.connect import ServerOptions
    from booksan_client.manage import results_command

    options = ServerOptions(server or (), token_file, operator_token_file, patience)
    raise typer.Exit(results_command(client, out, form, options, keep=keep, as_json=as_json))


@app.command(epilog=EXIT_CODES)
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


@app.command("list", epilog=EXIT_CODES)
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


def main() -> None:
    app()
