"""The command behind scripts/benchmarks: run one benchmark, or all of them to regenerate docs/benchmarks.md."""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

BENCHMARKS = {
    "recurrent": "recurrent layers vs torch.nn and a Python loop over time",
    "training": "training a language model and a tagger vs plain PyTorch programs",
    "translate": "translation models: training, greedy and beam search, sampling vs all installed peers",
    "int8": "layers, sampling and translation in int8 vs float32 and CTranslate2 int8",
    "bfloat16": "training in bfloat16 vs float32 and PyTorch programs under autocast",
    "attention": "windows and linear attention vs full attention on long inputs: time and memory",
    "compiled": "models compiled for C vs onnxruntime and Seqloom, one sequence at a time: time and size",
    "ctc": "CTC loss vs torch, CTC beam search vs fast-ctc-decode and flashlight-text",
    "embed": "word vectors vs gensim: speed, quality, memory (needs gensim and SEQLOOM_DATA)",
}

OTHERS = ("all", "defaults")

EPILOG = "\n".join(
    [
        "benchmarks:",
        *(f"  {name:<11}{description}" for name, description in BENCHMARKS.items()),
        f"  {'all':<11}measure everything, write docs/benchmarks/*.json and regenerate docs/benchmarks.md;",
        f"  {'':<11}takes about half an hour, during which nothing else should run",
        f"  {'defaults':<11}train every task with its defaults on real data and write the table of docs/training.md;",
        f"  {'':<11}needs SEQLOOM_DATA and two hours; a name of benchmarks/defaults.toml trains only that row",
        "",
        "scripts/peers FOLDER installs the libraries to compare with; PEERS=FOLDER scripts/benchmarks NAME uses them.",
        "Peers that are not installed are skipped with a message.",
    ]
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run what it names."""
    parser = argparse.ArgumentParser(
        prog="scripts/benchmarks",
        description="Benchmark Seqloom against other libraries, measured in turn on this machine.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", choices=[*BENCHMARKS, *OTHERS], help="one of the list below")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="with defaults: the rows to train")
    parser.add_argument("--quick", action="store_true", help="use fewer shapes and repetitions")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    options = parser.parse_args(arguments)
    if options.rows and options.name != "defaults":
        parser.error(f"{options.name} has no rows; only defaults has")
    if options.name is None:
        parser.print_help()
    elif options.name == "defaults":
        from benchmarks import defaults

        defaults.main(options.rows)
    elif options.name == "all":
        if options.json:
            parser.error("all writes its JSON files to docs/benchmarks; use --json with a single benchmark")
        measure_all(quick=options.quick)
    else:
        from benchmarks import report

        measure = import_module(f"benchmarks.{options.name}").measure
        report.print_results(measure(quick=options.quick), as_json=options.json)


def measure_all(*, quick: bool) -> None:
    """Run each benchmark in a process of its own and keep its JSON; a failed run leaves the old file in place."""
    from benchmarks import page

    page.FOLDER.mkdir(parents=True, exist_ok=True)
    page.write_environment(page.FOLDER)
    for name in BENCHMARKS:
        if name == "embed" and (find_spec("gensim") is None or "SEQLOOM_DATA" not in os.environ):
            print("Skipping embed: needs gensim (scripts/peers) and SEQLOOM_DATA", file=sys.stderr)
            continue
        print(f"Measuring {name} ...", file=sys.stderr)
        command = [sys.executable, "-m", "benchmarks", name, "--json", *(["--quick"] if quick else [])]
        child = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=page.DOCS.parent)  # noqa: S603
        (page.FOLDER / f"{name}.json").write_bytes(child.stdout)
    page.main()


if __name__ == "__main__":
    main()
