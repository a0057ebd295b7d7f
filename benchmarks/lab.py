"""Run experiments of the lab with their thorough options, and write docs/lab.md from all stored results."""

import argparse
import json
from pathlib import Path
from typing import Any

from seqloom import lab
from seqloom.info import processor
from seqloom.lab import runner
from seqloom.lab.experiment import TOPICS
from seqloom.lab.runner import Result

FOLDER = Path("docs/lab")
PAGE = Path("docs/lab.md")

INTRODUCTION, RULES = FOLDER / "introduction.md", FOLDER / "reviewed_rules.md"


def load(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return content


def store(result: Result, processor_name: str) -> None:
    """Write the results and the figure of an experiment."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = runner.dump(result).replace("{\n", f'{{\n "processor": {json.dumps(processor_name)},\n', 1)
    (FOLDER / f"{result.name}.json").write_text(text, encoding="utf-8")
    runner.draw(result, [FOLDER / f"{result.name}.svg"])


def render(results: dict[str, dict[str, Any]]) -> str:
    """docs/lab.md as text."""
    ordered = sorted(results.values(), key=lambda content: (TOPICS.index(content["topic"]), content["name"]))
    lines = [INTRODUCTION.read_text(encoding="utf-8"), "| claim | verdict |", "|---|---|"]
    lines += [f"| [{content['claim']}](#{anchor(content)}) | {content['verdict']['status']} |" for content in ordered]
    missing = [content for content in runner.describe_all() if content["name"] not in results]
    lines += [f"| {content['claim']} (`{content['name']}`) | no thorough run yet |" for content in missing]
    for topic in TOPICS:
        own = [content for content in ordered if content["topic"] == topic]
        lines += ["", f"## {topic}"] if own else []
        for content in own:
            lines += ["", section(content)]
    lines += ["", RULES.read_text(encoding="utf-8").strip()]
    processors = sorted({content["processor"] for content in ordered})
    versions = sorted({f"torch {content['versions']['torch']}" for content in ordered})
    lines += [
        "",
        f"Measured with {', '.join(versions)} on {', '.join(processors)}. `scripts/lab` generates this page from the",
        "results in `docs/lab`.",
        "",
    ]
    return "\n".join(lines)


def anchor(content: dict[str, Any]) -> str:
    return f"{content['name'].replace('_', '-')}"


def section(content: dict[str, Any]) -> str:
    """One experiment: claim, figure, verdict, rule and remarks."""
    name, verdict = content["name"], content["verdict"]
    remarks = FOLDER / f"{name}.md"
    command = f"`seqloom lab {name} --thorough` takes {_minutes(content['cpu_minutes'])} of computing time."
    parts = [
        f"### {name.replace('_', ' ').capitalize()}",
        f"{content['question']} The claim: *{content['claim']}* ({content['source']})",
        f"![{content['question']}](lab/{name}.svg)",
        f"**Verdict: {verdict['status']}.** {verdict['sentence']}",
        remarks.read_text(encoding="utf-8").strip() if remarks.exists() else "",
        f"Rule: {content['rule']} {command} [Measurements](lab/{name}.json)",
    ]
    return "\n\n".join(part for part in parts if part)


def _minutes(minutes: float) -> str:
    whole = max(round(minutes), 1)
    return f"{whole} minute{'s' if whole > 1 else ''}"


def main() -> None:
    """Run the named experiments, keep the other results, and write the page."""
    parser = argparse.ArgumentParser(prog="scripts/lab", description=__doc__)
    parser.add_argument("name", nargs="*", choices=[*lab.names(), []], metavar="NAME", help="experiments to run")
    parser.add_argument("--redraw", action="store_true", help="judge and draw all stored results again")
    options = parser.parse_args()
    for name in options.name:
        store(runner.run(name, runner.configure(name, preset="thorough"), preset="thorough"), processor())
    stored = {path.stem: load(path.stem) for path in sorted(FOLDER.glob("*.json"))}
    if options.redraw:
        for content in stored.values():
            store(Result.from_json(content), content["processor"])
        stored = {name: load(name) for name in stored}
    PAGE.write_text(render(stored), encoding="utf-8")


if __name__ == "__main__":
    main()
