"""How fast the studio is in chromium: ``python -m benchmarks.studio [--quick]``.

First paint, a hover with 12 linked views of 200 × 256, 1,000 runs in the table, an input of 2,000 tokens, and what a
training loses while it is watched. Nothing else should run.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
TABLE = """async () => {
  const table = document.querySelector(".table"), times = [];
  for (let step = 1; step <= 40; step++) {
    const start = performance.now();
    table.scrollTo(0, (step / 40) * table.scrollHeight);
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    times.push(performance.now() - start);
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
    scrolls = page.evaluate(TABLE)
    page.unroute("**/api/runs*")
    text = " ".join(["if", "x", "in", "self", ".", "items", ":"] * 286)[: 2000 * 8]
    page.goto(f"{address}/inside?run=demo-tag/run")
    started = time.perf_counter()
    page.get_by_label("Input", exact=True).fill(" ".join(text.split()[:2000]))
    page.locator("button.token").first.wait_for()
    return {
        "first paint": statistics.median(paints),
        "hover, 12 views of 200 × 256, median": statistics.median(hovers),
        "hover, 12 views of 200 × 256, 95 %": sorted(hovers)[int(0.95 * len(hovers))],
        "scroll of 1,000 runs, median of a frame": statistics.median(scrolls),
        "2,000 tokens until they are shown": 1000 * (time.perf_counter() - started),
    }


def measure_watching(page: Any, address: str, folder: Path, *, rounds: int, updates: int) -> tuple[float, float]:
    """Seconds of a training that nobody watches, and of one that the browser watches; medians, in turns."""
    config = folder / "demo-tag" / "run" / "config.toml"
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(2 * rounds):
        output = folder / f"watched-{number}"
        options = [f"train.updates={updates}", "train.evaluate_every=1000000", "--output", str(output), "--quiet"]
        command = [sys.executable, "-m", "seqloom", "train", str(config), *options]
        page.goto("about:blank")
        process = subprocess.Popen(command)  # noqa: S603  our own command
        while process.poll() is None and not (output / "metrics.jsonl").exists():
            time.sleep(0.05)
        if number % 2:
            page.goto(f"{address}/run?run={output.name}")
        process.wait()
        summary = json.loads((output / "summary.json").read_text())
        seconds[number % 2].append(summary["seconds"])
    return statistics.median(seconds[0]), statistics.median(seconds[1])


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(prog="python -m benchmarks.studio", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="watch a short training once")
    quick = parser.parse_args().quick
    chromium = next(path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        demo = [sys.executable, "-m", "seqloom", "demo", "tag", "--quick", "--json", "--output", name]
        subprocess.run(demo, check=True, stdout=subprocess.DEVNULL)  # noqa: S603  our own command
        with studio(folder) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.set_default_timeout(300_000)
            for what, milliseconds in measure_pages(page, address).items():
                terminal.print_lines(f"{what}: {milliseconds:.1f} ms")
            alone, watched = measure_watching(
                page, address, folder, rounds=1 if quick else 5, updates=40 if quick else 400
            )
            terminal.print_lines(f"training: {alone:.2f} s alone, {watched:.2f} s watched ({watched / alone - 1:+.1%})")
            browser.close()


if __name__ == "__main__":
    main()
