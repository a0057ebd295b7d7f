"""How fast the studio is in chromium: ``python -m benchmarks.studio [--quick]``.

First paint, a hover with 12 linked views of 200 × 256, 1,000 runs in the table, an input of 2,000 tokens, and what a
training loses while it is watched. Nothing else should run.
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from seqloom import terminal
from seqloom.service.server import listen, make_server
from seqloom.service.settings import ServiceSettings
from seqloom.studio.app import build_app

HOVER = """async () => {
  const { heatmap, makeLink } = await import("/static/heatmap.js");
  const link = makeLink(), values = Float32Array.from({ length: 200 * 256 }, () => Math.random() * 2 - 1);
  const views = [...Array(12)].map(() => heatmap({ title: "view", values, rows: 200, columns: 256, link }));
  document.querySelector("main").replaceChildren(...views);
  await new Promise(requestAnimationFrame);
  const times = [];
  for (let column = 0; column < 200; column++) {
    const start = performance.now();
    link.set(column);
    document.querySelector("main").getBoundingClientRect();  // with the layout
    times.push(performance.now() - start);
  }
  return times;
}"""
PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"
TABLE = """async (distance) => {  // a wheel turns by about 120 pixels
  const table = document.querySelector(".table"), times = [];
  table.scrollTo(0, 0);
  for (let step = 1; step <= 40; step++) {
    times.push(await new Promise((done) => {  // of one frame: script, layout and paint
      requestAnimationFrame((start) => setTimeout(() => done(performance.now() - start)));
      table.scrollTo(0, step * distance);
    }));
  }
  return times;
}"""


@contextmanager
def studio(folder: Path) -> Iterator[str]:
    """The studio of a folder; its address."""
    settings = ServiceSettings(port=0, max_length=100_000)
    listener = listen(settings)
    server = make_server(build_app(folder, settings), settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def measure_pages(page: Any, address: str) -> dict[str, float]:
    """Milliseconds, medians where something is repeated."""
    paints = []
    for _ in range(5):
        page.goto(f"{address}/")
        page.locator("tbody a").first.wait_for()
        paints.append(page.evaluate(PAINT))
    hovers = page.evaluate(HOVER)
    runs = page.request.get(f"{address}/api/runs").json()["runs"]
    many = json.dumps({"folder": "many", "runs": [{**runs[0], "id": f"run-{number}"} for number in range(1000)]})
    page.route("**/api/runs*", lambda route: route.fulfill(body=many))
    page.goto(f"{address}/")
    page.get_by_text("1000 runs").wait_for()
    scrolls, jumps = page.evaluate(TABLE, 120), page.evaluate(TABLE, 1000)
    page.unroute("**/api/runs*")
    text = " ".join(["if", "x", "in", "self", ".", "items", ":"] * 286)[: 2000 * 8]
    page.goto(f"{address}/inside?run=demo-tag/run")
    page.get_by_text(
        "The norm of the gradient"
    ).wait_for()  # the model is loaded, and all of the first example is shown
    started = time.perf_counter()
    page.get_by_label("Input", exact=True).fill(" ".join(text.split()[:2000]))
    page.wait_for_function("document.querySelectorAll('button.token').length >= 2000")
    return {
        "first paint": statistics.median(paints),
        "hover, 12 views of 200 × 256, median": statistics.median(hovers),
        "hover, 12 views of 200 × 256, 95 %": sorted(hovers)[int(0.95 * len(hovers))],
        "scroll of 1,000 runs, median of a frame": statistics.median(scrolls),
        "scroll of 1,000 runs, 95 %": sorted(scrolls)[int(0.95 * len(scrolls))],
        "1,000 runs, jumps to other rows, median of a frame": statistics.median(jumps),
        "2,000 tokens until they are shown": 1000 * (time.perf_counter() - started),
    }


class Training(NamedTuple):
    """What a training needed, and what its watchers needed meanwhile."""

    seconds: float  # between the first and the last row of its metrics
    cpu: float  # seconds of CPU time of the training, from start to end
    studio: float  # share of a core that the studio used, once the page was loaded
    browser: float  # the same of all processes of the browser
    watching: float  # seconds of CPU time of both for each second of the training's, which hardly depends on other load


def measure_watching(page: Any, folder: Path, *, rounds: int, updates: int) -> tuple[list[Training], list[Training]]:
    """Trainings that nobody watches, and the same ones watched in a browser, in turns; the studio runs all the time."""
    config = folder / "demo-tag" / "run" / "config.toml"
    trainings: tuple[list[Training], list[Training]] = ([], [])
    port = free_port()
    command = [sys.executable, "-m", "seqloom", "studio", str(folder), "--no-browser", "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:  # noqa: S603  our own command
        try:
            if server.stderr is not None:
                server.stderr.readline()  # it says that it is ready
            for number in range(2 * rounds):
                output = folder / f"watched-{number}"
                watched = f"http://127.0.0.1:{port}/run?run={output.name}" if number % 2 else ""
                trainings[number % 2].append(_train(page, config, output, updates, server.pid, watched))
                shutil.rmtree(output)
        finally:
            server.terminate()
    return trainings


def _train(page: Any, config: Path, output: Path, updates: int, studio_process: int, watched: str) -> Training:
    sizes = [f"train.updates={updates}", f"train.evaluate_every={updates // 5}", "train.log_every=10"]
    command = [sys.executable, "-m", "seqloom", "train", str(config), *sizes, "--output", str(output), "--quiet"]
    page.goto("about:blank")
    process = subprocess.Popen(command)  # noqa: S603  our own command
    while process.poll() is None and not (output / "metrics.jsonl").exists():
        time.sleep(0.02)
    if watched:
        page.goto(watched)
        page.get_by_role("img").first.wait_for()
    page.wait_for_timeout(1000)
    started, studio_cpu, browser = time.perf_counter(), _cpu(studio_process), _cpu_of_browser()
    before = _cpu(process.pid)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit("the training failed")
    elapsed = time.perf_counter() - started
    cpu = usage.ru_utime + usage.ru_stime
    watchers = _cpu(studio_process) - studio_cpu, _cpu_of_browser() - browser
    rows = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return Training(
        rows[-1]["seconds"] - rows[0]["seconds"],
        cpu,
        watchers[0] / elapsed,
        watchers[1] / elapsed,
        sum(watchers) / (cpu - before),
    )


def _cpu(process: int) -> float:
    """Seconds of CPU time of a process (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _cpu_of_browser() -> float:
    """The same of all processes of chromium below this one."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            text = path.read_text()
            parents[int(path.parent.name)] = (int(text.rsplit(")", 1)[1].split()[1]), "chrom" in text.split(")")[0])

    def is_ours(process: int) -> bool:
        while process in parents and process != os.getpid():
            process = parents[process][0]
        return process == os.getpid()

    total = 0.0
    for process, (_, is_browser) in parents.items():
        if is_browser and is_ours(process):
            with suppress(OSError):
                total += _cpu(process)
    return total


def report(alone: list[Training], watched: list[Training]) -> Iterator[str]:
    """What the training lost: the best of both, and the medians of pairs, which ran one after the other."""
    for name, unit in (("seconds", "seconds of training"), ("cpu", "seconds of CPU time")):
        ratios = [getattr(b, name) / getattr(a, name) - 1 for a, b in zip(alone, watched, strict=True)]
        best = [min(getattr(each, name) for each in side) for side in (alone, watched)]
        yield (
            f"watched training, {unit}: {best[0]:.2f} alone, {best[1]:.2f} watched ({best[1] / best[0] - 1:+.1%}); "
            f"median of {len(ratios)} pairs {statistics.median(ratios):+.1%} ({min(ratios):+.1%} to {max(ratios):+.1%})"
        )
    for name in ("studio", "browser"):
        sides = [statistics.median(getattr(each, name) for each in side) for side in (alone, watched)]
        yield f"{name}: {sides[0]:.2%} of a core while nobody watches, {sides[1]:.2%} while watched"
    used = [statistics.median(each.watching for each in side) for side in (alone, watched)]
    yield f"CPU time of both for that of the training: {used[0]:.2%} while nobody watches, {used[1]:.2%} while watched"


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(prog="python -m benchmarks.studio", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="watch a short training once")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--pages", action="store_true", help="only measure pages")
    only.add_argument("--watching", action="store_true", help="only measure what a training loses while watched")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of trainings")
    parser.add_argument("--updates", type=int, default=400, help="updates of each")
    parser.add_argument("--demo", type=Path, help="folder in which `seqloom demo tag` was run (default: run it first)")
    options = parser.parse_args()
    chromium = next(path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name)))
    with tempfile.TemporaryDirectory() as name:
        folder = options.demo or Path(name)
        if options.demo is None:
            demo = [sys.executable, "-m", "seqloom", "demo", "tag", "--quick", "--json", "--output", name]
            subprocess.run(demo, check=True, stdout=subprocess.DEVNULL)  # noqa: S603  our own command
        with studio(folder) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.set_default_timeout(300_000)
            if not options.watching:
                for what, milliseconds in measure_pages(page, address).items():
                    terminal.print_lines(f"{what}: {milliseconds:.1f} ms")
            if not options.pages:
                rounds, updates = (1, 40) if options.quick else (options.rounds, options.updates)
                alone, watched = measure_watching(page, folder, rounds=rounds, updates=updates)
                terminal.print_lines(*report(alone, watched))
            browser.close()


if __name__ == "__main__":
    main()
