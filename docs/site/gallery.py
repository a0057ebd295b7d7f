"""The gallery: pictures that the commands draw, for docs/gallery.md and, made anew, for the site.

``python -m docs.site.gallery FOLDER`` trains the models in a folder, unless they are there, draws every picture, and
writes docs/gallery.md and docs/gallery. With names of pictures after the folder, only these are drawn.
"""

import hashlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import seqloom


class Picture(NamedTuple):
    """A picture and the command that draws it."""

    name: str  # of the file on the site
    title: str
    task: str  # the demo that trains the model
    file: str  # without suffix; may contain *
    text: str
    page: str  # page that explains it
    inputs: tuple[str, ...] = ()  # arguments of `seqloom explain RUN`; none: the demo draws the picture
    wide: bool = False  # a single line
    command: tuple[str, ...] = ()  # another command that draws the picture; {run} is the run of the demo
    variants: Mapping[str, str] = MappingProxyType({})  # further runs, with what they change in that of the demo

    @property
    def demo(self) -> str:
        """The command that trains the model; empty if the picture needs none."""
        return f"seqloom demo {self.task}" if self.task else ""

    @property
    def commands(self) -> list[str]:
        """All commands, in the order in which they are run."""
        config = f"runs/demo-{self.task}/run/config.toml"
        trained = [f"seqloom train {config} {change} --output {run}" for run, change in self.variants.items()]
        return [command for command in (self.demo, *trained, self.explain) if command]

    @property
    def explain(self) -> str:
        """The command that draws the picture after the demo; empty if the demo does."""
        if self.command:
            return shlex.join(["seqloom", *(word.format(run=f"runs/demo-{self.task}/run") for word in self.command)])
        inputs = [word.format(data=f"runs/demo-{self.task}/data") for word in self.inputs]
        return shlex.join(["seqloom", "explain", f"runs/demo-{self.task}/run", *inputs]) if inputs else ""


PICTURES = [
    Picture(
        "attention",
        "Where a translator looks",
        "translate",
        "attention",
        "Attention over a French date while the model writes it in ISO 8601, character by character.",
        "explain.md#translations",
        ("le 14 juillet 1789",),
    ),
    Picture(
        "beam",
        "A beam search as a tree",
        "translate",
        "beam",
        "Every hypothesis, its score, and why its branch ended.",
        "explain.md#the-beam-search-as-a-tree",
        ("le 14 juillet 1789", "--search", "beam size=5 nbest=3", "--beam"),
    ),
    Picture(
        "anatomy",
        "The parts of a model",
        "translate",
        "anatomy",
        "Every part with its widths and its number of parameters; parts with more of them are darker.",
        "explain.md#the-parts-of-a-model",
        command=("info", "{run}", "--anatomy", "--output", "anatomy.png"),
    ),
    Picture(
        "unrolled",
        "A network unrolled over time",
        "translate",
        "unrolled",
        "A node for each layer and time step: the recurrence of encoder and decoder, and the attention between them.",
        "explain.md#the-parts-of-a-model",
        ("le 14 juillet 1789", "--unroll"),
    ),
    Picture(
        "unrolled_tagger",
        "Both directions of a tagger",
        "tag",
        "unrolled",
        "A bidirectional LSTM: every label depends on the words before and after.",
        "explain.md#the-parts-of-a-model",
        ("for name in sorted ( names ) :", "--unroll"),
        wide=True,
    ),
    Picture(
        "image_attention",
        "Which part of an image a word comes from",
        "caption",
        "image_attention",
        "The attention over the image at each word of its caption.",
        "explain.md#captions",
        ("{data}/images/test-0001.png",),
    ),
    Picture(
        "ctc",
        "The spikes of CTC",
        "transcribe",
        "ctc",
        "Probabilities of the characters along a line of handwriting; the blank is dashed.",
        "explain.md#transcripts",
        ("{data}/lines/test-0001.png",),
    ),
    Picture(
        "lattice",
        "All paths of a transcript",
        "transcribe",
        "lattice",
        "The CTC lattice: the probability of each state at each frame, summed over all paths that spell the text.",
        "explain.md#transcripts",
        ("{data}/lines/test-0001.png", "--paths"),
    ),
    Picture(
        "prefix_tree",
        "A prefix beam search",
        "transcribe",
        "beam",
        "The texts that a CTC search followed, and why each of them ended.",
        "explain.md#transcripts",
        ("{data}/lines/test-0001.png", "--beam", "--search", "prefix_beam size=8 nbest=3"),
    ),
    Picture(
        "forecast",
        "A forecast and what really happened",
        "forecast",
        "forecast",
        "Sunspots at the end of the development data.",
        "forecast.md",
    ),
    Picture(
        "embedding_map",
        "A map of words",
        "embed",
        "embedding_map",
        "Word vectors in the plane of their first two principal components.",
        "explain.md#word-vectors",
        (
            *("king", "queen", "man", "woman", "boy", "girl", "prince", "princess"),
            *("paris", "france", "rome", "italy", "berlin", "germany", "madrid", "spain"),
        ),
    ),
    Picture(
        "analogy",
        "king − man + woman",
        "embed",
        "embedding_map",
        "Analogies as parallelograms: the same arrow from another word, and the word nearest to its end.",
        "explain.md#word-vectors",
        ("king - man + woman", "paris - france + italy"),
    ),
    Picture(
        "neighbours",
        "The neighbours of a word",
        "embed",
        "embedding_map",
        "A single word among the words nearest to it.",
        "explain.md#word-vectors",
        ("king",),
    ),
    Picture(
        "surprisal",
        "How surprising each character is",
        "language_model",
        "tokens",
        "Surprisal in bits, given all characters before.",
        "explain.md#language-models",
        ("The value of an integer is the same.",),
        wide=True,
    ),
    Picture(
        "labels",
        "How certain a tagger is",
        "tag",
        "labels",
        "Labels of the tokens of a line of Python. Darker tokens are less certain.",
        "explain.md#taggers-and-classifiers",
        ("for name in sorted ( names ) :",),
        wide=True,
    ),
    Picture(
        "attribution",
        "Which words decided a label",
        "tag",
        "attribution",
        "Words that speak for the label of a name in blue, words that speak against it in orange.",
        "explain.md#which-words-mattered",
        ("for name in sorted ( names ) :", "--word", "name"),
        wide=True,
    ),
    Picture(
        "channels",
        "Which part of a digit mattered",
        "classify",
        "attribution",
        "Contributions of each pixel to the label of a digit that is read row by row, with the signal of each column.",
        "explain.md#sensor-channels",
        ("{data}/test.ts",),
    ),
    Picture(
        "gates",
        "Inside an LSTM",
        "tag",
        "gates-*",
        "Gates and states of every unit at every step.",
        "explain.md#gates",
        ("for name in sorted ( names ) :", "--gates"),
    ),
    Picture(
        "heads",
        "The heads of a Transformer",
        "tag",
        "runs/transformer/explain/heads",
        "The tagger with self-attention: a map for each head of each block, row by row what a token attends to.",
        "explain.md#taggers-and-classifiers",
        command=("explain", "runs/transformer", "for name in sorted ( names ) :", "--heads"),
        variants={"runs/transformer": "task.encoder.cell=transformer"},
    ),
    Picture(
        "memory",
        "How far back a model sees",
        "tag",
        "doctor/memory_encoder",
        "The gradient of a loss with respect to earlier and later states: the doctor draws a picture of each finding.",
        "doctor.md",
        command=("doctor", "{run}", "--output", "doctor"),
        wide=True,
    ),
    Picture(
        "learning_curves",
        "Learning curves",
        "classify",
        "results",
        "Loss and score of a classifier of handwritten digits. Every run draws them.",
        "training.md",
    ),
    Picture(
        "curves",
        "Learning curves of several runs",
        "tag",
        "curves",
        "Training loss and dev score of runs that were trained separately, such as the tagger with other cells.",
        "training.md",
        command=("plot", "curves", "{run}", "runs/gru", "runs/elman", "--output", "curves.png"),
        variants={"runs/gru": "task.encoder.cell=gru", "runs/elman": "task.encoder.cell=elman"},
    ),
    Picture(
        "activations",
        "Activation functions",
        "",
        "activations",
        "The functions that `elman` and the layers of a prenet take, with their derivatives.",
        "recurrent.md",
        command=("plot", "activations", "--output", "activations.png"),
    ),
    Picture(
        "positions",
        "Position schemes",
        "",
        "positions",
        "What a Transformer knows of the order of its input.",
        "attention.md",
        command=("plot", "positions", "--output", "positions.png"),
    ),
    Picture(
        "dark",
        "On a dark background",
        "tag",
        "gates-*",
        "Every picture can be drawn dark: `--theme dark`, or `train.plot_theme` for all plots of a run.",
        "explain.md#options",
        ("for name in sorted ( names ) :", "--gates", "--theme", "dark"),
    ),
]

HEADER = """# Gallery

Every picture comes with its commands; paste them to draw it on your machine. The demos train small models on built-in
data, in about a minute each. Pictures are written as PNG, SVG or PDF (`--plots svg`, or the suffix of `--output`), on a
light or a dark background (`--theme dark`).
"""
MAX_WIDTH, COLOURS = 900, 48
"""Pixels and colours of the pictures of docs/gallery, which keep the files small."""


def write(source: Path, *, work: Path, quick: bool) -> None:
    """Train the models in a folder, unless they are there; draw the pictures, and write the page that shows them."""
    folder = source / "gallery"
    folder.mkdir(exist_ok=True)  # pictures of docs/gallery.md, which are replaced
    cards = []
    for picture in PICTURES:
        drawn = draw(picture, work, quick=quick)
        shutil.copy(drawn, folder / f"{picture.name}{drawn.suffix}")
        cards.append(card(picture, f"gallery/{picture.name}{drawn.suffix}"))
    text = "Every picture comes with its commands; paste them to draw it on your machine. Models and data are built in."
    grid = "\n".join([":::::{grid} 1 1 2 2", ":gutter: 4", "", *cards, ":::::", ""])
    (source / "gallery.md").write_text(f"---\nhide-toc: true\n---\n# Gallery\n\n{text}\n\n{grid}", encoding="utf-8")
    landing = source / "index.md"
    landing.write_text(with_suffixes(landing.read_text(encoding="utf-8"), folder), encoding="utf-8")


def page() -> str:
    """The text of docs/gallery.md."""
    parts = [HEADER]
    for picture in PICTURES:
        block = "\n".join(["```sh", *picture.commands, "```"])
        image = f"![{picture.title}](gallery/{picture.name}.png)"
        parts.append(f"## {picture.title}\n\n{picture.text} [More]({picture.page})\n\n{block}\n\n{image}\n")
    return "\n".join(parts)


def write_page(folder: Path, *, work: Path, names: Sequence[str] = ()) -> None:
    """Draw all pictures, or those of these names, small enough for the repository, and write the page with them."""
    from PIL import Image

    (folder / "gallery").mkdir(exist_ok=True)
    for picture in PICTURES:
        if names and picture.name not in names:
            continue
        with Image.open(draw(picture, work, quick=False)) as image:
            height = round(image.height * min(1.0, MAX_WIDTH / image.width))
            small = image.convert("RGB").resize((min(image.width, MAX_WIDTH), height), Image.Resampling.LANCZOS)
        # Maximum coverage keeps colours that only few pixels have, such as those of thin lines.
        few = small.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE)
        few.save(folder / "gallery" / f"{picture.name}.png", optimize=True)
    (folder / "gallery.md").write_text(page(), encoding="utf-8")


def with_suffixes(text: str, folder: Path) -> str:
    """A page that names pictures of the gallery without their suffix, with it."""
    for path in folder.iterdir():
        text = text.replace(f"gallery/{path.stem}.*", f"gallery/{path.name}")
    return text


def card(picture: Picture, image: str) -> str:
    commands = picture.commands
    return "\n".join(
        [
            "::::{grid-item-card}",
            f":class-item: gallery{' wide' if picture.wide else ''}",
            "",
            ":::{card-header}",
            f"```{{image}} {image}",
            f":alt: {picture.title}",
            f":target: _images/{Path(image).name}",
            "```",
            ":::",
            f"**{picture.title}**",
            "",
            f"{picture.text} [More]({picture.page})",
            "",
            *(f"    {command}" for command in commands),
            "::::",
            "",
        ]
    )


def draw(picture: Picture, work: Path, *, quick: bool) -> Path:
    """The file of a picture, drawn by the commands that the gallery shows."""
    home = work / "runs" / f"demo-{picture.task}"
    work.mkdir(parents=True, exist_ok=True)
    if picture.task:
        train(picture.task, home, work, quick=quick)
    for name, command in zip(picture.variants, picture.commands[1:], strict=False):
        if not (work / name).exists():
            run(shlex.split(command), work)
    if picture.explain:
        shutil.rmtree(home / "run" / "explain", ignore_errors=True)
        run(shlex.split(picture.explain), work)
    where = work if picture.command else home / "run" / "explain" if picture.explain else home / "run"
    files = sorted(where.glob(f"{picture.file}.svg")) or sorted(where.glob(f"{picture.file}.png"))
    if not files:
        raise FileNotFoundError(f"{picture.explain or picture.demo} wrote no {picture.file} in {where}")
    return files[0]


def train(task: str, home: Path, work: Path, *, quick: bool) -> None:
    """Run a demo, unless its model is there and was trained by the same code."""
    digest = package_digest()
    stamp = home / "stamp"
    if stamp.is_file() and stamp.read_text() == digest:
        return
    shutil.rmtree(home, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)
    run(["seqloom", "demo", task, *(["--quick"] if quick else [])], work)
    stamp.write_text(digest)


@cache
def package_digest() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(seqloom.__file__).parent.rglob("*")):
        if path.suffix in {".py", ".toml"}:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def run(command: list[str], folder: Path) -> None:
    """Run one of our commands, without a terminal."""
    print(shlex.join(command), flush=True)
    subprocess.run(  # noqa: S603
        [sys.executable, "-m", *command], cwd=folder, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )


if __name__ == "__main__":
    write_page(Path(__file__).parent.parent, work=Path(sys.argv[1]), names=sys.argv[2:])
