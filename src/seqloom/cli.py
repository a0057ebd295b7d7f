"""The command line. Every import that takes time stands inside the command that needs it."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from seqloom import __version__

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
bench = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(bench, name="bench", help="Measure ours side by side with others.")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]


def main() -> None:
    """Run the command line."""
    app(prog_name="seqloom")


def print_version(wanted: bool) -> None:  # noqa: FBT001
    if wanted:
        print(f"seqloom {__version__}")
        raise typer.Exit


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2))


def fail(message: str) -> NoReturn:
    typer.echo(f"seqloom: {message}", err=True)
    raise typer.Exit(1)


@app.callback()
def seqloom(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Small sequence models on the machine you have.

    Exit codes: 0 done, 1 failed, 2 called wrongly, 130 interrupted.
    """


@app.command(epilog="Example: seqloom demo --output pictures")
def demo(
    *,
    output: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("runs"),
    seed: Annotated[int, typer.Option(help="Of the random numbers: the same seed, the same result.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="Short lengths only: a few seconds.")] = False,
    as_json: AsJson = False,
) -> None:
    """See how far back three recurrent networks remember."""
    from seqloom import terminal
    from seqloom.lab import memory

    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"cannot make the folder {output}: {error.strerror}")
    short = memory.Memory(lengths=(5, 10), updates=100, seed=seed)
    experiment = short if quick else memory.Memory(seed=seed)
    outcomes = []
    with terminal.progress(len(experiment.cases())) as begin:
        for network, length in experiment.cases():
            begin(f"{network}, {length} steps")
            outcomes.append(experiment.measure(network, length))
    picture: Path | None = output / "memory.png"
    try:
        memory.draw(outcomes, output / "memory.png", chance=experiment.chance)
    except ModuleNotFoundError as error:
        typer.echo(f"No picture, since {error.name} is missing: pip install 'seqloom[plots]'", err=True)
        picture = None
    if as_json:
        found = [asdict(outcome) for outcome in outcomes]
        print_json(
            {"outcomes": found, "verdict": memory.verdict(outcomes), "picture": str(picture) if picture else None}
        )
        return
    print("A symbol is shown, then come steps with distractors, then the network has to name the symbol.")
    print(f"The LSTMs begin with their forget gates open (bias {experiment.forget_bias:g}).")
    print(
        f"Right answers ({experiment.chance:.0%} by luck), and ∇, the gradient that reaches the symbol before training:"
    )
    terminal.table(*memory.tabulate(outcomes))
    print(memory.verdict(outcomes))
    if picture:
        print(f"Picture: {picture}")


@app.command(epilog="Example: seqloom info --json")
def info(*, as_json: AsJson = False) -> None:
    """Show versions, machine, kernel cache and fused cells."""
    from seqloom import terminal
    from seqloom.info import collect

    found = collect()
    if as_json:
        print_json(asdict(found))
        return
    terminal.table(
        ("what", "found"),
        [
            *found.versions.items(),
            ("processor", f"{found.processor}, {found.cores} cores"),
            ("threads", str(found.threads)),
            ("vector registers", f"{found.vector_bits} bits"),
            ("kernel cache", f"{found.cache_folder} ({found.cache_files} files, {found.cache_bytes / 1e6:.1f} MB)"),
        ],
    )
    terminal.table(("cell", "path"), list(found.cells.items()))


@bench.command("recurrent", epilog="Example: seqloom bench recurrent --quick")
def bench_recurrent(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer shapes and repetitions.")] = False,
    as_json: AsJson = False,
) -> None:
    """Recurrent layers against torch.nn and a plain loop."""
    from seqloom.bench import recurrent

    recurrent.main(quick=quick, as_json=as_json)
