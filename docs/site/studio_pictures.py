"""The pictures of docs/studio.md: every page of the studio, light and dark.

``python -m docs.site.studio_pictures FOLDER`` trains small models in a folder, unless they are there, opens the studio
in chromium, and writes docs/studio.
"""

import io
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from seqloom.service.server import listen, make_server
from seqloom.service.settings import ServiceSettings
from seqloom.studio.app import build_app

OUTPUT = Path(__file__).parent.parent / "studio"
DEMOS = ("tag", "translate", "transcribe")
VARIANTS = {
    "tag-gru": ["task.encoder.cell=gru", "train.learning_rate=0.003"],
    "tag-elman": ["task.encoder.cell=elman"],
}
WIDTH = 1280
COLOURS = 128  # of a picture, which keeps the files small


class Page(NamedTuple):
    """A page of the studio."""

    name: str
    address: str
    ready: str  # a text that appears when everything is drawn
    height: int = 900


PAGES = (
    Page("runs", "/", "what differs", 560),
    Page("run", "/run?run=tag-gru", "right at each evaluation", 1500),
    Page("compare", "/compare?runs=tag-elman&runs=tag-gru", "dev examples differ", 1100),
    Page("try", "/try?run=demo-transcribe/run&example=16", "See inside", 700),
    Page("inside", "/inside?run=tag-gru&example=152&from=0&to=2", "The norm of the gradient", 2000),
    Page("search", "/inside?run=demo-translate/run&example=41&beam=1", "The norm of the gradient", 1300),
    Page("edit", "/inside?run=tag-gru&text=for+name+in+NAMES+:&before=for+name+in+names+:", "How much the hidden", 900),
    Page("doctor", "/doctor?run=tag-gru", "Measured on", 1000),
    Page("lab", "/lab", "Memory and gradients", 700),
)


def main(folder: Path) -> None:
    _train(folder)
    settings = ServiceSettings(port=0)
    listener = listen(settings)
    server = make_server(build_app(folder, settings), settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        _take_pictures(f"http://127.0.0.1:{listener.getsockname()[1]}")
    finally:
        server.should_exit = True
        thread.join(30)


def _train(folder: Path) -> None:
    """The runs that the pages show; a few seconds each."""

    def run(*arguments: str) -> None:
        subprocess.run([sys.executable, "-m", "seqloom", *arguments], check=True)  # noqa: S603  our own command

    for task in DEMOS:
        if not (folder / f"demo-{task}").exists():
            run("demo", task, "--quick", "--output", str(folder))
    config = str(folder / "demo-tag" / "run" / "config.toml")
    for name, changes in VARIANTS.items():
        if not (folder / name).exists():
            steps = ["train.updates=200", "train.evaluate_every=20", "train.log_every=4"]
            run("train", config, *changes, *steps, "--output", str(folder / name), "--quiet")


def _take_pictures(address: str) -> None:
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
            for page in PAGES:
                _take_picture(view, page, OUTPUT / f"{page.name}_{theme}.png")
        browser.close()


def _take_picture(view: Any, page: Page, path: Path) -> None:
    view.set_viewport_size({"width": WIDTH, "height": page.height})
    view.goto(page.address)
    view.get_by_text(page.ready).first.wait_for()
    view.get_by_text("Computing the states").wait_for(state="detached")
    view.mouse.move(0, 0)
    picture = Image.open(io.BytesIO(view.screenshot()))
    picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs"))
