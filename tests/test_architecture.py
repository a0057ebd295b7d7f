"""The rules of ARCHITECTURE.md, read from the source: who imports whom, what is public, what must not exist."""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import seqloom

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "seqloom"
SOURCES = sorted(PACKAGE.rglob("*.py"))
BENCHMARKS = sorted((ROOT / "benchmarks").rglob("*.py"))
DOCS = (ROOT / "docs").glob("*.md")
PACKAGES = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))

MAY_IMPORT: dict[str, set[str]] = {
    "config": set(),
    "state": set(),
    "files": set(),
    "cache": {"files"},
    "kernels": {"cache"},
    "metrics": set(),
    "formats": set(),  # below all that shows something to people, so that one number looks the same everywhere
    "terminal": {"formats"},
    "html": set(),
    "answers": {"formats", "html"},
    "interrupt": set(),
    "migration": set(),
    "checkpoint": {"files", "migration"},
    "run": {"files", "migration", "checkpoint", "html"},
    "cells": {"state"},
    "layers": {"cells", "kernels", "state"},
    "data": {"cache", "files", "formats", "config", "state", "kernels"},
    "training": {"config", "state", "metrics", "data", "checkpoint"},
    "decoding": {"files", "cache", "config", "state", "kernels"},
    "models": {
        "files",
        "checkpoint",
        "config",
        "run",
        "state",
        "kernels",
        "data",
        "cells",
        "layers",
        "decoding",
        "training",
    },
    "export_check": set(),
    "onnx": {"files", "export_check", "cells", "kernels", "layers", "decoding", "models"},
    "standalone": {"files", "export_check", "cells", "kernels", "data", "layers", "models"},
    "insight": {"files", "formats", "terminal", "html", "kernels", "data", "metrics", "layers", "models", "decoding"},
    "tasks": {
        *("files", "config", "formats", "html", "checkpoint", "run", "state", "data", "metrics", "layers", "models"),
        "decoding",
        "insight",
        "export_check",
        "onnx",
        "standalone",
    },
    "loggers": {"files", "run", "training"},
    "run_document": {"config", "data", "training", "tasks"},
    "run_config": {"config", "run", "run_document", "data", "layers", "training", "models", "tasks"},
    "training_data": {"checkpoint", "run", "data", "run_config"},
    "evaluation": {"data", "metrics", "training", "tasks", "run_config"},
    "calibration": {"terminal", "run", "models", "run_config", "evaluation"},
    "learning_monitor": {"metrics", "training", "tasks"},
    "run_summary": {"config", "formats", "data", "metrics", "models", "terminal", "run", "run_config"},
    "warm_start": {"config", "run", "data", "training", "models", "tasks", "run_config"},
    "model": {
        "formats",
        "html",
        "insight",
        "answers",
        "run_summary",
        "run",
        "data",
        "training",
        "models",
        "decoding",
        "tasks",
        "run_config",
        "metrics",
        "training_data",
        "evaluation",
        "export_check",
        "onnx",
        "standalone",
        "layers",
    },
    "length_report": {"formats", "terminal", "insight", "metrics", "evaluation", "model"},
    "streaming": {"terminal", "data", "model"},
    "explain": {"files", "formats", "terminal", "insight", "models", "model"},
    "diagnosis": {
        *("files", "formats", "terminal", "metrics", "run", "cells", "layers", "data", "training", "models"),
        *("insight", "tasks", "run_config", "training_data", "model"),
    },
    "run_plots": {"run", "insight", "run_config", "model"},
    "run_recorder": {
        *("checkpoint", "formats", "run", "terminal", "training", "run_config", "run_summary", "run_plots"),
        "calibration",
    },
    "sample_answers": {"tasks"},
    "workflow": {
        *("files", "checkpoint", "run", "interrupt", "data", "training", "models", "run_config", "evaluation"),
        *("run_recorder", "training_data", "loggers", "learning_monitor", "warm_start", "config", "layers", "seqloom"),
        *("diagnosis", "sample_answers", "metrics"),
    },
    "comparison": {
        *(
            "files",
            "config",
            "metrics",
            "terminal",
            "html",
            "interrupt",
            "run",
            "data",
            "layers",
            "training",
            "models",
            "insight",
            "tasks",
        ),
        *("run_config", "evaluation", "model", "training_data", "workflow", "seqloom"),
    },
    "quantization": {
        *("files", "checkpoint", "terminal", "formats", "data", "layers", "models", "run", "run_config", "run_summary"),
        *("evaluation", "training_data", "model", "comparison"),
    },
    "tuning": {
        *(
            "files",
            "config",
            "terminal",
            "interrupt",
            "run",
            "training",
            "insight",
            "tasks",
            "run_config",
            "training_data",
        ),
        *("workflow", "comparison"),
    },
    "interactive": {
        *(
            "config",
            "formats",
            "terminal",
            "html",
            "run",
            "data",
            "training",
            "models",
            "tasks",
            "run_config",
            "run_document",
            "training_data",
        ),
        *("workflow", "warm_start", "comparison"),
    },
    "learning_rate_finder": {"formats", "terminal", "insight", "training", "run_config", "training_data", "workflow"},
    "sklearn": {"files", "answers", "data", "run", "model", "interactive"},
    "check": {
        "formats",
        "terminal",
        "data",
        "layers",
        "training",
        "tasks",
        "run_config",
        "training_data",
        "evaluation",
    },
    "service": {
        "files",
        "answers",
        "config",
        "terminal",
        "data",
        "models",
        "decoding",
        "run",
        "run_config",
        "model",
        "seqloom",
    },
    "examples": set(),
    "lab": {
        *(
            "config",
            "files",
            "formats",
            "metrics",
            "terminal",
            "state",
            "data",
            "cells",
            "layers",
            "training",
            "models",
        ),
        *("decoding", "insight", "tasks", "run_config", "run_document", "evaluation", "model", "explain", "workflow"),
        *("examples", "seqloom"),
    },
    "demos": {
        *("config", "metrics", "terminal", "data", "decoding", "tasks", "insight", "run_config", "evaluation"),
        *("model", "explain", "workflow", "lab", "examples"),
    },
    "testing": {"terminal", "state", "data", "metrics", "training", "cells", "layers", "tasks", "insight"},
    "info": {
        "insight",
        "formats",
        "terminal",
        "run_summary",
        "run",
        "kernels",
        "layers",
        "models",
        "run_config",
        "seqloom",
    },
    "studio": {
        *(
            "files",
            "answers",
            "checkpoint",
            "terminal",
            "insight",
            "run",
            "run_config",
            "run_summary",
            "model",
            "service",
        ),
        *(
            "config",
            "data",
            "layers",
            "decoding",
            "tasks",
            "evaluation",
            "training_data",
            "comparison",
            "diagnosis",
            "lab",
        ),
    },
    "cli": {
        *(
            "files",
            "answers",
            "cache",
            "config",
            "formats",
            "terminal",
            "interrupt",
            "run_config",
            "run_document",
            "data",
            "decoding",
            "tasks",
            "training",
            "insight",
            "run",
        ),
        *(
            "model",
            "streaming",
            "length_report",
            "explain",
            "diagnosis",
            "metrics",
            "workflow",
            "comparison",
            "quantization",
            "tuning",
            "check",
            "examples",
            "demos",
            "lab",
            "info",
            "run_summary",
            "learning_rate_finder",
            "service",
            "studio",
            "seqloom",
        ),
    },
    "__main__": {"cli"},
    "__init__": {
        *(
            "state",
            "data",
            "cells",
            "layers",
            "decoding",
            "insight",
            "model",
            "interactive",
            "sklearn",
            "comparison",
            "tuning",
            "explain",
            "diagnosis",
            "testing",
        ),
    },
}
"""Lowest layer first; ``seqloom`` is the package itself, that is, its version."""


def part(path: Path) -> str:
    """The part of the package a file belongs to: its folder, or a top-level file itself."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


class Code(NamedTuple):
    """What the rules look at in a file."""

    imports: list[ast.Import | ast.ImportFrom]
    calls: list[ast.Call]


@cache
def parse(path: Path) -> Code:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    return Code(imports, [node for node in nodes if isinstance(node, ast.Call)])


def imported_parts(path: Path) -> set[str]:
    parts = set()
    for node in parse(path).imports:
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            names = [alias.name for alias in node.names]
        for name in names:
            root, _, rest = f"{name}.".partition(".")
            assert root not in ("benchmarks", "tests"), f"{path}: the package imports {root}"
            if root == "seqloom":
                top = rest.split(".")[0]
                ours = (PACKAGE / f"{top}.py").is_file() or (PACKAGE / top / "__init__.py").is_file()
                parts.add(top if top and ours else "seqloom")
    return parts


def test_imports_go_down_only() -> None:
    for path in SOURCES:
        own = part(path)
        assert own in MAY_IMPORT, f"{own} is new: say in MAY_IMPORT and in ARCHITECTURE.md what it may import"
        forbidden = imported_parts(path) - MAY_IMPORT[own] - {own}
        assert not forbidden, f"{path.relative_to(PACKAGE)} imports {forbidden}"


def test_rules_are_acyclic_and_about_existing_parts() -> None:
    below: set[str] = {"seqloom"}
    for name, allowed in MAY_IMPORT.items():
        assert (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()
        assert allowed <= below, f"{name} may import only what stands above it in the table"
        below.add(name)


def test_architecture_document_names_every_part() -> None:
    document = (ROOT / "ARCHITECTURE.md").read_text()
    for name in MAY_IMPORT.keys() - {"__main__"}:
        assert re.search(rf"(?<![\w/]){re.escape(name)}(\.py|/)", document), name


def test_architecture_document_names_existing_files() -> None:
    document = (ROOT / "ARCHITECTURE.md").read_text()
    walks = document.split("## Three walks")[1]
    for path in re.findall(r"`([\w/]+\.py)`", walks):
        assert (PACKAGE / path).is_file(), path
    for folder in re.findall(r"(?<![\w/])(\w+)/(?= )", document.split("## Import rules")[0]):
        assert [*PACKAGE.rglob(folder), *ROOT.glob(folder), *ROOT.glob(f"*/{folder}")], folder


PUBLIC = {
    "seqloom": """Attention Beam Bidirectional Cell Greedy Layer Recurrent Sample Stack VariationalDropout __version__
        cells compare doctor explain from_torch insight layers load projection recurrence recurrent resume sklearn state
        sweep testing to_torch train transformer write_npz""",
    "seqloom.cells": "Cell Coupled Elman GRU IndRNN LSTM LayerNormGRU LayerNormLSTM MGU MinGRU MinLSTM MogrifierLSTM "
    "Peephole RecurrentDropout SLSTM SRU Zoneout",
    "seqloom.explain": "explain",
    "seqloom.insight": """AttentionMap CapturedAttention Explanation GateTrace ModelPart activation_curve
        anatomy attention_lines capture_attention draw_activations draw_anatomy draw_attention
        draw_attention_heads draw_explanation draw_forecast draw_gates draw_learning_curves draw_positions
        plot_theme print_explanation trace_gates""",
    "seqloom.layers": "Bidirectional Layer Recurrent Stack VariationalDropout from_torch to_torch",
    "seqloom.sklearn": "SequenceClassifier SequenceForecaster SequenceRegressor SequenceTagger",
    "seqloom.state": "Shared apply repeat select where",
    "seqloom.testing": "check_cell check_layer check_task",
}
"""All public names. README and docs use no others; what is not here may change at any time."""


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_these(name: str) -> None:
    module, names = import_module(name), PUBLIC[name].split()
    assert sorted(getattr(module, "__all__", names)) == sorted(names)
    assert all(getattr(module, member) is not None for member in names)


def test_public_modules_have_their_names_listed() -> None:
    modules = {name for name in seqloom.__all__ if isinstance(getattr(seqloom, name), ModuleType)}
    assert {f"seqloom.{name}" for name in modules} == PUBLIC.keys() - {"seqloom"}


def imported_names(code: str) -> set[tuple[str, str]]:
    """What a piece of documentation imports from seqloom: modules and names."""
    names: set[tuple[str, str]] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {(str(node.module), alias.name) for alias in node.names}
    return {(module, name) for module, name in names if module.partition(".")[0] == "seqloom"}


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{p.name}" for p in DOCS)])
def test_documentation_uses_public_names_only(page: str) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    allowed = {(module, name) for module, names in PUBLIC.items() for name in names.split()}
    allowed |= {(module, "") for module in PUBLIC}
    assert imported_names("\n".join(blocks)) <= allowed


def test_types_see_the_public_names() -> None:
    assert sorted(seqloom.__all__) == dir(seqloom)
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen_by_types = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen_by_types == set(seqloom.__all__) - {"__version__"}
    with pytest.raises(AttributeError, match="no attribute 'lstm'"):
        _ = seqloom.lstm


@pytest.mark.parametrize("folder", [pytest.param(path, id=path.name) for path in PACKAGES])
def test_a_package_exports_what_it_imports(folder: Path) -> None:
    tree = ast.parse((folder / "__init__.py").read_text())
    imported = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    module = import_module(f"seqloom.{folder.name}")
    assert imported == set(getattr(module, "__all__", ()))
    assert all(hasattr(module, name) for name in imported)


def test_tests_mirror_the_source() -> None:
    for init in PACKAGE.rglob("*/__init__.py"):
        folder = init.parent.relative_to(PACKAGE)
        assert list((ROOT / "tests" / folder).rglob("test_*.py")), f"tests/{folder} has no tests"
    for path in PACKAGE.glob("[!_]*.py"):
        assert (ROOT / "tests" / f"test_{path.name}").is_file(), f"{path.name} has no tests"


TESTS = sorted((ROOT / "tests").rglob("test_*.py"))


def test_a_test_file_is_named_after_what_it_tests() -> None:
    """``tests/a/b/test_c.py`` tests ``a/b/c.py``; ``test_c_d.py`` may test one aspect of it."""
    for path in TESTS:
        *folders, name = path.relative_to(ROOT / "tests").parts
        home = ROOT / "benchmarks" / Path(*folders[1:]) if folders[:1] == ["benchmarks"] else PACKAGE / Path(*folders)
        if not folders or folders[0] == "contracts":
            continue
        subject = name.removeprefix("test_").removesuffix(".py")
        modules = [home.name, *(module.stem.strip("_") for module in [*home.glob("*.py"), *home.glob("*/")])]
        assert any(subject == module or subject.startswith(f"{module}_") for module in modules), path


def called(node: ast.Call) -> str:
    function = node.func
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def asserts(node: ast.AST) -> bool:
    """Whether code checks something by itself, or by a function that says so by its name."""
    checking = re.compile(r"_?(check|assert)|(raises|warns|fail|skip|gradcheck|expect)$")
    return any(
        isinstance(part, ast.Assert) or (isinstance(part, ast.Call) and checking.match(called(part)))
        for part in ast.walk(node)
    )


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Every list of statements of a function, without those of functions inside it."""
    for field in ("body", "orelse", "finalbody"):
        if block := getattr(node, field, None):
            yield block
            for part in block:
                if not isinstance(part, ast.FunctionDef | ast.ClassDef):
                    yield from blocks(part)
    for handler in getattr(node, "handlers", ()):
        yield from blocks(handler)


def faults(test: ast.FunctionDef) -> Iterator[str]:
    """Why a test may pass without having checked anything."""
    if not asserts(ast.Module(test.body, [])):
        yield "checks nothing"
    for block in blocks(test):
        for index, part in enumerate(block):
            if isinstance(part, ast.Return) and not any(map(asserts, block[:index])):
                yield "returns without a check: skip with a reason, or assume()"
    for node in ast.walk(test):
        if isinstance(node, ast.Call) and called(node).startswith("test_"):
            yield f"calls {called(node)}: move what both need into a check_ function"


def test_every_test_checks_something() -> None:
    problems = [
        f"{path.relative_to(ROOT)}:{test.lineno} {test.name} {fault}"
        for path in TESTS
        for test in ast.walk(ast.parse(path.read_text()))
        if isinstance(test, ast.FunctionDef) and test.name.startswith("test_")
        for fault in faults(test)
    ]
    assert problems == []


def test_vacuous_tests_are_found() -> None:
    code = """
def test_nothing(): run()
def test_early(x):
    if x:
        return
    assert x
def test_loop(): test_early(1); assert True
def test_fine(x):
    if x:
        assert x
        return
    check(x)
"""
    tests = [node for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)]
    assert [len(list(faults(test))) for test in tests] == [1, 1, 1, 0]


def test_no_catch_all_modules() -> None:
    for path in [*SOURCES, *BENCHMARKS, *(ROOT / "tests").rglob("*.py")]:
        words = re.split(r"[/_.]", str(path.relative_to(ROOT)))
        assert not {"util", "utils", "helper", "helpers", "common", "misc"} & set(words), path


FORBIDDEN_MODULES = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "yaml"}
FORBIDDEN_CALLS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "torch.load",
    "torch.save",
    "torch.jit.load",
    "numpy.load",
}


def code_from_data(code: Code) -> Iterator[str]:
    """Imports and calls by which data could run as code."""
    for node in code.imports:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [str(node.module)]
        yield from (f"line {node.lineno}: {name}" for name in names if name.split(".")[0] in FORBIDDEN_MODULES)
    last_words = {name.rpartition(".")[2] for name in FORBIDDEN_CALLS}
    for call in code.calls:
        if called(call) in last_words and ast.unparse(call.func) in FORBIDDEN_CALLS:
            yield f"line {call.lineno}: {ast.unparse(call.func)}"


def test_nothing_runs_code_from_data() -> None:
    found = {str(path): list(code_from_data(parse(path))) for path in [*SOURCES, *BENCHMARKS]}
    assert {path: problems for path, problems in found.items() if problems} == {}


def test_code_from_data_is_found(tmp_path: Path) -> None:
    path = tmp_path / "example.py"
    path.write_text(
        "import yaml, json\nfrom pickle import loads\neval(a); torch.jit.load(b); json.load(c); re.compile(d)"
    )
    assert [problem.partition(": ")[2] for problem in code_from_data(parse(path))] == [
        *("yaml", "pickle", "eval", "torch.jit.load"),
    ]


WRITING_CALLS = {
    "write_bytes",
    "touch",
    "NamedTemporaryFile",
    "mkstemp",
    "ftruncate",
    "truncate",
    "copyfile",
    "savefig",
}


def writes(node: ast.Call) -> bool:
    """Whether a call writes a file by itself: by a function for that, or by opening it for writing."""
    name, arguments = called(node), [*node.args, *(keyword.value for keyword in node.keywords)]
    if name not in WRITING_CALLS | {"write_text", "open"}:
        return False
    texts = [value.value for value in arguments if isinstance(value, ast.Constant) and isinstance(value.value, str)]
    owner = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
    if owner in ("files", "checkpoint"):
        return False
    return (
        name in WRITING_CALLS
        or (name == "write_text" and bool(owner))
        or (name == "open" and any(re.fullmatch(r"[rwaxbt+]*[wax+][bt+]*", text) for text in texts))
        or (name == "open" and owner == "os" and "O_CREAT" in ast.unparse(node))
    )


ELSEWHERE = {
    "run.py": ["ftruncate"],  # of the lock file
    "journal.py": ["touch"],  # to read the clock of the file system
    "plotting.py": ["savefig"],  # into a file that files.py has opened
}


def test_files_are_written_in_one_place() -> None:
    """``files.py`` writes completely or not at all, and follows no link."""
    for path in SOURCES:
        if path.name != "files.py":
            found = [called(call) for call in parse(path).calls if writes(call)]
            assert found == ELSEWHERE.get(path.name, []), path


def test_writing_calls_are_found() -> None:
    code = "a.write_text(b); p.open('wb'); open(p, 'a'); open(p, mode='r+'); os.open(p, os.O_CREAT); p.open('rb')"
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    assert sum(map(writes, calls)) == 5


def test_no_machine_specific_paths() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607
    if listed.returncode:
        pytest.skip("not a git checkout")
    folders = re.compile(r"(?<![\w.])/(root|home|work|opt|Users|mnt|srv)/|[A-Z]:\\Users")
    hosts = re.compile(r"\b(pypi|pythonhosted|download\.pytorch|anaconda)\.(org|com|io)\b")
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if name and path.is_file() and path != Path(__file__) and path.suffix != ".png":
            text = path.read_text(errors="replace")
            assert not folders.search(text), f"{name} names a folder of a machine"
            assert not hosts.search(text), f"{name} names the host of a package index"
