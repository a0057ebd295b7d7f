"""Pages that are generated from the package: commands, configuration keys, examples, public Python names."""

import inspect
import os
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import typer.main
from typer.testing import CliRunner

import seqloom
from seqloom import examples, tasks
from seqloom.cli.main import app

RETURNED = {"seqloom": {"seqloom.model.Model": "", "seqloom.run.Run": " rows, best_metrics"}}
"""Classes that public functions return, by the page that documents them, with their public members."""


def write(source: Path) -> None:
    """Write all generated pages into the source folder of the site."""
    for name, text in {
        "commands": commands(),
        "configuration": configuration(),
        "examples": example_configurations(),
        **api(),
    }.items():
        path = source / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def run_command(*words: str) -> str:
    """What ``seqloom`` prints."""
    os.environ |= {"COLUMNS": "96", "TERMINAL_WIDTH": "96"}
    result = CliRunner().invoke(app, words, prog_name="seqloom", catch_exceptions=False)
    if result.exit_code:
        raise RuntimeError(result.output)
    return result.output


def fenced(text: str, language: str) -> str:
    return f"```{language}\n{text.strip()}\n```\n"


def commands() -> str:
    group = typer.main.get_command(app)
    names = list(getattr(group, "commands", {}))
    parts = [
        "# Commands\n\nWhat `seqloom COMMAND --help` prints.\n",
        *(f"## {name}\n\n{fenced(run_command(name, '--help'), 'text')}" for name in names),
    ]
    return "\n".join(parts)


def configuration() -> str:
    """The output of ``seqloom init`` for every task; what all tasks share is shown once."""
    parts = [
        "# Configuration\n",
        "All keys with their defaults, as `seqloom init TASK` prints them. A configuration needs only the keys that",
        "differ from the defaults. On the command line, write a key with its section: `train.epochs=5`.\n",
    ]
    training = ""
    for name in tasks.names():
        task, training = re.split(
            r"^(?=(?:# .*\n)*\[train\])", run_command("init", name), maxsplit=1, flags=re.MULTILINE
        )
        parts.append(f"## {name}\n\n[What it does, and which keys matter most]({name}.md)\n\n{fenced(task, 'toml')}")
    parts.append(f"## train\n\nFor every task. [How to train](training.md)\n\n{fenced(training, 'toml')}")
    return "\n".join(parts)


def example_configurations() -> str:
    parts = [
        "# Example configurations\n",
        "A short configuration for each task. `seqloom init TASK --example` prints it,",
        "`seqloom demo TASK` trains it.\n",
        *(f"## {name}\n\n{fenced(examples.text(name), 'toml')}" for name in tasks.names()),
    ]
    return "\n".join(parts)


def public_names(module: ModuleType) -> list[str]:
    """The public classes and functions of a module."""
    names = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
    ]
    values = {name: getattr(module, name) for name in names if not name.startswith("_")}
    return [name for name, value in values.items() if inspect.isclass(value) or inspect.isroutine(value)]


def api() -> dict[str, str]:
    """A page for each public module, and one that lists them."""
    modules = [seqloom, *(import_module(f"seqloom.{name}") for name in seqloom.__all__ if name in submodules())]
    documented: dict[object, str] = {}
    pages = {}
    for module in modules:
        pages[f"api/{module.__name__}"] = module_page(module, documented)
    rows = [f"| [{module.__name__}]({module.__name__}.md) | {first_line(module)} |" for module in modules]
    tree = ["```{toctree}", ":hidden:", "", *(module.__name__ for module in modules), "```"]
    pages["api/index"] = "\n".join(
        [
            "# Python\n",
            "Names on these pages are public. Whatever is not here may change at any time.\n",
            *("| module | content |", "|---|---|", *rows, "", *tree, ""),
        ]
    )
    return pages


def submodules() -> set[str]:
    return {name for name in seqloom.__all__ if isinstance(getattr(seqloom, name), ModuleType)}


def first_line(value: object) -> str:
    line = (inspect.getdoc(value) or "").partition("\n")[0]
    return line.replace("``", "`").replace("|", "\\|")


def module_page(module: ModuleType, documented: dict[object, str]) -> str:
    """The page of a module: a table of its names and their documentation, which is elsewhere for names seen before."""
    rows, parts = [], []
    own = {name: f"{module.__name__}.{name}" for name in public_names(module)}
    returned = RETURNED.get(module.__name__, {})
    own |= {path.rpartition(".")[2]: path for path in returned}
    for name, path in own.items():
        value = getattr(import_module(path.rpartition(".")[0]), name)
        home = documented.setdefault(value, path)
        kind = "class" if inspect.isclass(value) else "func"
        rows.append(f"| {{py:{kind}}}`{name} <{home}>` | {first_line(value)} |")
        if home == path:
            directive = "autoclass" if inspect.isclass(value) else "autofunction"
            members = f"\n   :members:{returned.get(path, '')}" if inspect.isclass(value) else ""
            parts.append(f".. {directive}:: {path}{members}\n")
    head = [f"# {module.__name__}\n", first_line(module), "", "| name | content |", "|---|---|", *rows, ""]
    return "\n".join([*head, "```{eval-rst}", "\n".join(parts), "```", ""]) if parts else "\n".join(head)
