"""The pictures of docs/studio.md: every page of the studio, light and dark.

``python -m docs.site.studio_pictures FOLDER [NAME …]`` trains small models in a folder, unless they are there, opens
the studio in chromium, and writes docs/studio: all pictures, or those with these names.
"""

import io
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from seqloom.service.server import listen, make_server
from seqloom.service.settings import ServiceSettings
from seqloom.studio.app import build_app

OUTPUT = Path(__file__).parent.parent / "studio"
DATA = {"tag": "python_tags/{}.conll", "translate": "dates/{}.tsv", "transcribe": "handwriting/{}.tsv"}
DATA["language_model"] = "prose/{}.txt"
REPORT = ["train.evaluate_every=20", "train.log_every=4"]
RUNS = {  # name: the example configuration, and what differs from it
    "tag-lstm": ("tag", ["train.updates=200"]),
    "tag-gru": ("tag", ["train.updates=200", "task.encoder.cell=gru", "train.learning_rate=0.003"]),
    "tag-elman": ("tag", ["train.updates=200", "task.encoder.cell=elman"]),
    "tag-crf": ("tag", ["train.updates=200", "task.encoder.cell=gru", "task.output=crf"]),
    "dates": ("translate", ["train.updates=400"]),
    "digits": ("transcribe", ["train.updates=300"]),
    "prose": ("language_model", ["train.updates=400", "task.decoder.hidden_size=96", "train.evaluate_every=80"]),
}
BEFORE = "name+%3D+self+.+items"  # a text of the picture "edit"
WIDTH = 1280
COLOURS = 256  # of a picture, which keeps the files small


class Page(NamedTuple):
    """A page of the studio."""

    name: str
    address: str
    ready: str  # a text that appears when everything is drawn
    height: int = 900
    width: int = WIDTH


PAGES = (
    Page("runs", "/?sort=best", "What differs", 480),
    Page("phone", "/?sort=best", "tag-crf", 844, width=390),
    Page("run", "/run?run=tag-gru", "right at each evaluation", 1500),
    Page("compare", "/compare?runs=tag-elman&runs=tag-gru&runs=tag-crf&runs=tag-lstm", "dev examples differ", 2000),
    Page("data", "/data?run=tag-gru&label=STRING&predicted=NAME", "Most frequent errors", 1100),
    Page("try", "/try?run=digits", "See inside", 640),
    Page("inside", "/inside?run=tag-gru&example=152&from=0&to=2", "The norm of the gradient", 2250),
    Page("transcript", "/inside?run=digits&example=16&from=13&to=18", "elements); the best place", 1790),
    Page("unit", "/inside?run=prose&example=12&unit=layer:91", "lowest in the dev data", 1740),
    Page("search", "/inside?run=dates&example=41&beam=1&search=beam", "The norm of the gradient", 1300),
    Page("edit", f"/inside?run=tag-gru&word=5&before={BEFORE}&text={BEFORE}+(+)", "How much the hidden", 900),
    Page("doctor", "/doctor?run=tag-gru", "Measured on", 1000),
    Page("lab", "/lab", "Memory and gradients", 700),
)


def main(folder: Path, names: Sequence[str]) -> None:
    _train(folder)
    settings = ServiceSettings(port=0)
    listener = listen(settings)
    server = make_server(build_app(folder, settings), settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        chosen = [page for page in PAGES if page.name in names or not names]
        _take_pictures(f"http://127.0.0.1:{listener.getsockname()[1]}", chosen)
    finally:
        server.should_exit = True
        thread.join(30)


def _train(folder: Path) -> None:
    """The runs that the pages show; half a minute each."""

    def run(*arguments: str) -> None:
        subprocess.run([sys.executable, "-m", "seqloom", *arguments], check=True)  # noqa: S603  our own command

    for name, (task, changes) in RUNS.items():
        if (folder / name).exists():
            continue
        files = folder.resolve() / "data" / DATA[task]
        if not files.parent.exists():
            run("data", files.parent.name, str(files.parent))
        data = [f"task.{part}={str(files).format(part)}" for part in ("train", "dev")]
        config = str(resources.files("seqloom.examples") / f"{task}.toml")
        run("train", config, *data, *REPORT, *changes, "--output", str(folder / name), "--quiet")


def _take_pictures(address: str, pages: Sequence[Page]) -> None:
    from playwright.sync_api import sync_playwright

    chromium = next(path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name)))
    OUTPUT.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for theme in ("light", "dark"):
            view = browser.new_context(
                base_url=address, color_scheme=theme, viewport={"width": WIDTH, "height": PAGES[0].height}
            ).new_page()
            view.set_default_timeout(120_000)
            for page in pages:
                _take_picture(view, page, OUTPUT / f"{page.name}_{theme}.png")
        browser.close()


def _take_picture(view: Any, page: Page, path: Path) -> None:
    view.set_viewport_size({"width": page.width, "height": page.height})
    view.goto(page.address)
    view.get_by_text(page.ready).first.wait_for()
    view.get_by_text("Computing the states").wait_for(state="detached")
    view.locator(".loading").wait_for(state="detached")
    view.wait_for_load_state("networkidle")  # small pictures of inputs
    view.mouse.move(0, 0)
    picture = Image.open(io.BytesIO(view.screenshot())).convert("RGB")
    octree = Image.Quantize.FASTOCTREE  # keeps colours of few pixels, such as that of a star
    picture.quantize(COLOURS, method=octree, dither=Image.Dither.NONE).save(path, optimize=True)
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs"), sys.argv[2:])
