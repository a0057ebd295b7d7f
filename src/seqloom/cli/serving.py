"""Commands that serve over HTTP: models to programs, and the studio to a browser. Slow imports are inside."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.completion import complete_run
from seqloom.cli.options import Constrain, LanguageModel, Layer, Lexicon, Search, errors

Port = Annotated[int, typer.Option(min=0, max=65535, help="Port (0: any free one).")]
Token = Annotated[
    str,
    typer.Option(
        envvar="SEQLOOM_TOKEN",
        help="Secret that clients send as Authorization: Bearer TOKEN; needed if other machines can connect.",
    ),
]
Threads = Annotated[int, typer.Option(min=1, help="Threads of a computation.")]


def serve(
    run: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN", help="Folders of training runs, or exported .onnx files.", autocompletion=complete_run
        ),
    ],
    *,
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0: all of this machine.")] = "127.0.0.1",
    port: Port = 8000,
    token: Token = "",
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Name by which clients reach the service; repeatable.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Web site whose pages may use the service, such as https://example.org."),
    ] = None,
    max_batch: Annotated[int, typer.Option(min=1, help="Maximum number of inputs computed together.")] = 32,
    max_wait: Annotated[float, typer.Option(min=0, help="Milliseconds that an input waits for others.")] = 2.0,
    max_queue: Annotated[int, typer.Option(min=1, help="Inputs that may wait; further ones get status 503.")] = 256,
    max_body: Annotated[int, typer.Option(min=1, help="Maximum size of an uploaded file in MB.")] = 32,
    threads: Threads = 1,
    reload: Annotated[
        bool, typer.Option("--reload", help="Load the best checkpoint again when training has found a better one.")
    ] = False,
    search: Search = "",
    constrain: Constrain = "",
    lexicon: Lexicon = "",
    lm: LanguageModel = "",
    layer: Layer = "",
) -> None:
    """Serve models over HTTP. Speaks JSON, the OpenAI API for text and speech, and the Open Inference Protocol."""
    with errors():
        try:
            from seqloom.service.serve import serve_runs
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"{error.name} is not installed; run pip install 'seqloom[serve]'") from None
        from seqloom.service.settings import MEGABYTE, ServiceSettings

        settings = ServiceSettings(
            host=host,
            port=port,
            token=token,
            allow_hosts=tuple(allow_host or ()),
            allow_origins=tuple(allow_origin or ()),
            max_batch=max_batch,
            max_wait=max_wait / 1000,
            max_queue=max_queue,
            max_body=max_body * MEGABYTE,
            reload_seconds=2.0 if reload else 0.0,
        )
        code = serve_runs(
            run,
            settings,
            threads=threads,
            layer=layer,
            search=search,
            constrain=constrain,
            lexicon=lexicon,
            lm=lm,
        )
    raise typer.Exit(code)


def studio(
    folder: Annotated[Path, typer.Argument(help="Folder that holds runs.")] = Path("runs"),
    *,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Port = 8080,
    token: Token = "",
    threads: Threads = 1,
    layer: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE:NAME", help="Custom layer or cell with which some runs were trained; repeatable."),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address only.")] = False,
) -> None:
    """Look at runs in a browser. Compare them, watch them train, try them, see inside."""
    with errors():
        try:
            from seqloom.studio.studio import run_studio
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"{error.name} is not installed; run pip install 'seqloom[serve]'") from None
        from seqloom.service.settings import ServiceSettings

        settings = ServiceSettings(host=host, port=port, token=token)
        code = run_studio(folder, settings, open_browser=not no_browser, threads=threads, layers=layer or ())
    raise typer.Exit(code)
