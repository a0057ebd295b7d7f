"""Commands that configure, check and train a model. Slow imports are inside the command that needs them."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from seqloom.cli.completion import complete_run, complete_task
from seqloom.cli.options import (
    AsJson,
    Configuration,
    DataFiles,
    Layer,
    Overrides,
    TaskName,
    errors,
)


def init(
    task: Annotated[
        str, typer.Argument(help="Task, such as tag; omit it to list all tasks.", autocompletion=complete_task)
    ] = "",
    *,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema, with which editors complete and check the file.")
    ] = False,
    example: Annotated[
        bool, typer.Option("--example", help="Print the short configuration that seqloom demo uses.")
    ] = False,
    data: Annotated[
        str, typer.Option(help="Training file, or folder with a train and a dev file, to choose defaults for.")
    ] = "",
) -> None:
    """Print a configuration to start from. Has a comment for each key; --schema prints its JSON Schema for editors."""
    from seqloom import examples, tasks

    with errors():
        if example:
            print(examples.text(task) if task else examples.listing(), end="")
            return
        if not task:
            for name in tasks.names():
                print(f"{name:16}{(tasks.find(name).__doc__ or '').splitlines()[0]}")
            return
        from seqloom.run_config import config_template

        if schema:
            from seqloom.tuning.schema import config_schema

            print(json.dumps(config_schema(task), indent=2, ensure_ascii=False))
            return
        template = config_template(task, data=data)
        print(f"#:schema ./{task}.schema.json")
        print(f"# For completion and checks in an editor: seqloom init {task} --schema > {task}.schema.json\n")
        print(template, end="")


def check(
    config: Configuration = "",
    overrides: Overrides = None,
    *,
    task: TaskName = "",
    data: DataFiles = "",
    learning_rate: Annotated[
        bool,
        typer.Option("--learning-rate", help="Suggest a learning rate instead: train briefly with rising ones."),
    ] = False,
    output: Annotated[
        Path | None, typer.Option(help="With --learning-rate: draw the curve to this .png, .svg or .pdf file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look for problems in data and configuration. Reports sizes, lengths, unknown tokens, duplicates and errors."""
    from seqloom import terminal
    from seqloom.run_document import check_tables, read_document

    with errors():
        document = read_document(config, overrides or [], task=task, data=data)
        check_tables(document)

        from seqloom.check import check_data, print_report
        from seqloom.insight.plotting import plot_theme
        from seqloom.learning_rate_finder import find_learning_rate, print_test
        from seqloom.run_config import Config

        settings = Config.build(document)
        if learning_rate:
            test = find_learning_rate(settings)
            if as_json:
                terminal.print_json(asdict(test))
            else:
                with plot_theme(settings.train.plot_theme):
                    print_test(test, output)
            return
        report = check_data(settings)
        if as_json:
            terminal.print_json(asdict(report))
        else:
            print_report(report)
        if report.problems:
            raise typer.Exit(1)


def train(
    config: Configuration = "",
    overrides: Overrides = None,
    *,
    output: Annotated[Path | None, typer.Option(help="New folder for the run; default: runs/TASK.")] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Run to resume; the result equals that of an uninterrupted run. A finished run continues if a limit "
            "is raised, such as train.epochs=30.",
            autocompletion=complete_run,
        ),
    ] = None,
    start_from: Annotated[
        Path | None,
        typer.Option("--from", help="Run whose weights a new run starts from.", autocompletion=complete_run),
    ] = None,
    vocabulary: Annotated[
        Literal["shared", "mapped"],
        typer.Option(
            help="With --from: shared uses the vocabulary of that run; mapped uses that of the new data, with the "
            "weights of all tokens that both have."
        ),
    ] = "shared",
    task: TaskName = "",
    data: DataFiles = "",
    layer: Layer = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="Print errors only.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model. Its checkpoints, metrics and learning curves are written to a new run folder.

    Ctrl-C saves and stops; --resume continues. Several processes: torchrun --nproc-per-node 2 -m seqloom train CONFIG
    """
    from seqloom.run_document import check_columns, check_files, check_tables, check_task, read_document

    with errors():  # what can be found before torch is imported, which takes seconds
        if resume is None:
            document = read_document(config, overrides or [], task=task, data=data)
            check_task(document)
            check_tables(document)
            check_files(document)
            check_columns(document)
        elif ("=" not in config and config) or task or data or output or start_from:
            raise ValueError(
                "--resume uses the configuration of the run: remove all other arguments but --layer and changes such "
                "as train.epochs=30"
            )

    from seqloom import terminal, workflow
    from seqloom.run_config import Config, find_layer, load_config
    from seqloom.run_summary import print_summary, summarize

    with errors(), terminal.TrainingProgress(quiet=quiet or not workflow.is_main_process()) as progress:
        custom_layer = find_layer(layer)
        if resume is None:
            run = workflow.train(
                Config.build(document),
                output=output,
                layer=custom_layer,
                start_from=start_from,
                vocabulary=vocabulary,
                listeners=[progress],
            )
        else:
            changes = [*filter(None, [config]), *(overrides or [])]
            run = workflow.resume(resume, changes, layer=custom_layer, listeners=[progress])
            if not (progress.started or progress.quiet):
                print(f"{resume}: training is complete; nothing is left to do", file=sys.stderr)
    with errors():
        if not workflow.is_main_process():
            return
        summary = summarize(run, load_config(run))
        if as_json:
            baseline = {"name": summary.baseline, **summary.baseline_scores}
            terminal.print_json({"run": summary.path, **summary.metrics, "baseline": baseline})
        elif not quiet:
            print_summary(summary, run.details())
