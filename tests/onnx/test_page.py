"""Pages of exported models, in a real browser."""

import io
import json
import math
import random
import shutil
import threading
from base64 import b64decode
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.chromium import CHROMIUM, new_page, playwright
from tests.contracts import tiny
from tests.contracts.registry import randomize
from tests.contracts.test_export import counted, find_case
from tests.tasks.transcribe.test_transcribe_with_language_model import train_language_model
from tests.test_seqloom_runtime import ALLOWED, TEXTS, TOKENIZERS, assert_same, with_noise

import seqloom_runtime
from seqloom.data.drawing_style import drawing_style
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.decoding.searches import parse_search
from seqloom.decoding.tokens.beam import Beam
from seqloom.models.transcription.search_guide import parse_language_model
from seqloom.onnx.page import RUNTIME_FILES, find_onnxruntime_web, write_page

LIBRARY = find_onnxruntime_web()
in_browser = pytest.mark.skipif(
    not CHROMIUM or LIBRARY is None, reason="needs chromium and onnxruntime-web: scripts/setup installs them"
)
SEARCHES: dict[str, Any] = {"beam": Beam(size=4, nbest=3), "prefix_beam": PrefixBeam(size=8, nbest=2)}
MODELS = {
    "classify": "",
    "classify, pairs": "",
    "classify, numbers": "",
    "classify, regression": "",
    "classify, sound": "",
    "classify, images": "",
    "classify, video": "",
    "classify, contextual vectors": "",
    "classify, pairs with static vectors": "",
    "tag, crf": "",
    "tag, fine-tuned and static vectors": "",
    "tag, masked vectors": "",
    "tag, regression": "",
    "forecast": "",
    "forecast, every_step": "",
    "mixture": "",
    "counts": "",
    "language_model, characters": "",
    "language_model, transformer": "",
    "translate": "beam",
    "translate, characters": "",
    "translate, contextual vectors": "",
    "translate, transformer": "beam",
    "caption, pooled image": "beam",
    "transcribe": "prefix_beam",
    "transcribe, columns": "",
    "2-D LSTM": "",
    "hard attention": "beam",
    "transcribe, attention": "",
    "transcribe, joint": "beam",
}
"""A model with random weights for each kind of input and output, and its search."""


def write_model(name: str, folder: Path, page: Path, *, inverted: bool = False, **options: Any) -> list[Any]:
    """Write the page of a model; return inputs for it. ``inverted``: draw as if its images were inverted."""
    case = counted(5) if name == "counts" else find_case(name)
    task: Any = tiny.build(case, folder).task
    if MODELS.get(name):
        task = task.with_options(search=SEARCHES[MODELS[name]])
    task = task.with_options(**options)
    examples = list(task.read(folder / case.file))
    task = task.fit(examples)
    module = task.build_model().eval()
    randomize(module, dtype=torch.float32)
    with torch.no_grad():
        shown = [SimpleNamespace(content=255 - example.content) for example in examples] if inverted else examples
        about: dict[str, Any] = {"metadata": {"name": f"{name} <b>"}, "onnxruntime_web": LIBRARY}
        about["drawing"] = drawing_style(shown)
        write_page(task.onnx_model(module), page, [examples[:4]], **about)
    return [with_noise(item) for item in case.questions]


def to_browser(item: Any) -> Any:
    """An input as JavaScript has it."""
    if isinstance(item, tuple):
        return {"samples": np.asarray(item[0], np.float32).tolist(), "rate": item[1]}
    if isinstance(item, np.ndarray) and item.dtype == np.uint8 and item.ndim == 4:
        return [to_browser(frame) for frame in item]
    if isinstance(item, np.ndarray) and item.dtype == np.uint8:
        pixels = np.repeat(item[:, :, None], 3, axis=2) if item.ndim == 2 else item
        return {"pixels": pixels.ravel().tolist(), "width": item.shape[1], "height": item.shape[0]}
    return item.tolist() if isinstance(item, np.ndarray) else item


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder of pages, and its address."""
    folder = tmp_path_factory.mktemp("site")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def open_page(browser: Any, site: tuple[Path, str], problems: list[str], name: str, **options: Any) -> Any:
    """A page that may neither fail nor ask for anything outside; its policy forbids more than it needs."""
    page = new_page(browser, site[1], problems, viewport={"width": 960, "height": 640}, **options)
    page.goto(f"{site[1]}/{name}/")
    return page


@pytest.fixture(scope="module")
def classifier_page(browser: Any, site: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    write_model("classify", tmp_path_factory.mktemp("data"), site[0] / "classify")
    problems: list[str] = []
    page = open_page(browser, site, problems, "classify")
    playwright.expect(page.get_by_label("Input")).to_be_visible()
    yield page
    assert problems == []


LOAD = """async ([base, inputs, runtime]) => {
    const { load } = await import(runtime);
    const ort = await import(`${base}/onnxruntime-web/ort.wasm.min.mjs`);
    const model = await load(ort, await (await fetch(`${base}/model.json`)).json(), { base });
    const answers = await model.predict(inputs);
    const sampling = [{}, { lines: 2, temperature: 0.7, top_k: 3 }, { lines: 0, top_p: 0.8, seed: 5 }];
    if (model.generate) for (const options of sampling) {
        let text = "";
        for await (const part of model.generate("a cd", { length: 40, ...options })) text += part;
        answers.push(text);
    }
    return JSON.stringify(answers);
}"""


@in_browser
@pytest.mark.parametrize("name", MODELS)
def test_answers_in_the_browser(classifier_page: Any, site: tuple[Path, str], tmp_path: Path, name: str) -> None:
    """Those of seqloom_runtime, which are those of Seqloom."""
    folder = name.replace(" ", "_").replace(",", "")
    inputs = write_model(name, tmp_path, site[0] / folder)
    model: Any = seqloom_runtime.load(site[0] / folder / "model.onnx")
    expected = model.predict(inputs)
    if name.startswith("language_model"):
        for options in ({}, {"lines": 2, "temperature": 0.7, "top_k": 3}, {"lines": 0, "top_p": 0.8, "seed": 5}):
            expected.append("".join(model.generate("a cd", length=40, **options)))
    given = [to_browser(item) if not isinstance(item, np.ndarray) or item.ndim > 1 else item for item in inputs]
    arguments = [f"{site[1]}/{folder}", given, f"{site[1]}/classify/seqloom_runtime.js"]
    assert_same(json.loads(classifier_page.evaluate(LOAD, arguments)), json.loads(json.dumps(expected)))


@in_browser
@pytest.mark.parametrize(
    ("name", "search", "method"),
    [
        ("transcribe", "prefix_beam size=8 nbest=2", "fusion"),
        ("transcribe", "prefix_beam size=8 nbest=2", "rescore"),
        ("transcribe, joint", "beam size=4 nbest=3", "fusion"),
        ("transcribe, joint", "beam size=4 nbest=3", "rescore"),
        ("transcribe, joint", "greedy", "fusion"),
    ],
)
@pytest.mark.parametrize("words", [True, False])
def test_guided_searches_in_the_browser(
    classifier_page: Any, site: tuple[Path, str], tmp_path: Path, name: str, search: str, method: str, words: bool
) -> None:
    """With an n-gram model of words and a lexicon, or one of characters: the answers of seqloom_runtime."""
    folder = f"guided {name} {search} {method} {words}".replace(" ", "_").replace(",", "").replace("=", "_")
    language = train_language_model(tmp_path, "words" if words else "characters", model="ngram", order=2)
    (tmp_path / "allowed.txt").write_text("".join(f"{word}\n" for word in tiny.WORDS))
    lm = parse_language_model(f"{language} weight=0.6 word_score=0.2 method={method}")
    options: dict[str, Any] = {"lexicon": str(tmp_path / "allowed.txt")} if words else {}
    inputs = write_model(name, tmp_path, site[0] / folder, search=parse_search(search), lm=lm, **options)
    inputs.append(np.random.default_rng(2).normal(size=(9, 3)).tolist())
    expected = seqloom_runtime.load(site[0] / folder / "model.onnx").predict(inputs)
    arguments = [f"{site[1]}/{folder}", inputs, f"{site[1]}/classify/seqloom_runtime.js"]
    assert_same(json.loads(classifier_page.evaluate(LOAD, arguments)), json.loads(json.dumps(expected)))


@in_browser
@pytest.mark.parametrize("method", ["fusion", "rescore"])
def test_guided_translations_in_the_browser(
    classifier_page: Any, site: tuple[Path, str], tmp_path: Path, method: str
) -> None:
    """The parts of their scores, too."""
    language = train_language_model(tmp_path, "words", texts="A CD\nCD X X\nX A\n", model="ngram", order=2)
    lm = parse_language_model(f"{language} weight=0.6 word_score=0.2 method={method}")
    folder = f"guided_translate_{method}"
    inputs = write_model("translate", tmp_path, site[0] / folder, search=Beam(size=4, nbest=3), lm=lm)
    expected = seqloom_runtime.load(site[0] / folder / "model.onnx").predict(inputs)
    assert all(candidate["language"] < 0 for answer in expected for candidate in answer["nbest"])
    arguments = [f"{site[1]}/{folder}", inputs, f"{site[1]}/classify/seqloom_runtime.js"]
    assert_same(json.loads(classifier_page.evaluate(LOAD, arguments)), json.loads(json.dumps(expected)))


@in_browser
@pytest.mark.parametrize("search", ["greedy", "beam size=4 nbest=3"])
def test_constrained_outputs_in_the_browser(
    classifier_page: Any, site: tuple[Path, str], tmp_path: Path, search: str
) -> None:
    folder = f"constrained_{search.split(maxsplit=1)[0]}"
    (tmp_path / "allowed.txt").write_text("".join(f"{text}\n" for text in ALLOWED))
    options: dict[str, Any] = {"constrain": str(tmp_path / "allowed.txt"), "search": parse_search(search)}
    inputs = write_model("translate", tmp_path, site[0] / folder, **options)
    expected = seqloom_runtime.load(site[0] / folder / "model.onnx").predict(inputs)
    arguments = [f"{site[1]}/{folder}", inputs, f"{site[1]}/classify/seqloom_runtime.js"]
    assert_same(json.loads(classifier_page.evaluate(LOAD, arguments)), json.loads(json.dumps(expected)))


def test_there_is_no_page_for_a_neural_language_model_of_a_search(tmp_path: Path) -> None:
    language = train_language_model(tmp_path, "characters", decoder={"hidden_size": 5}, embedding_size=4)
    with pytest.raises(ValueError, match="there is no page for a search with a neural language model"):
        write_model("transcribe", tmp_path, tmp_path / "page", lm=parse_language_model(str(language)))


@in_browser
def test_tokens_in_the_browser(classifier_page: Any, site: tuple[Path, str]) -> None:
    draw = random.Random(3)  # noqa: S311
    letters = "the cloudsare  \n\t\x1c,.'’\"-_(/)x3²漢か🙂\u0301ÀéİＡ▁@#<>:%U.S٣Ⅷ\ufeff\u200d"
    texts = [*TEXTS, "", *("".join(draw.choices(letters, k=draw.randint(1, 30))) for _ in range(300))]
    descriptions = [tokenizer.model_dump(mode="json") for tokenizer in TOKENIZERS]
    results = classifier_page.evaluate(
        """async ([runtime, descriptions, texts]) => {
            const { Tokenizer } = await import(runtime);
            return descriptions.map((description) => {
                const tokenizer = new Tokenizer(description);
                return texts.map((text) => {
                    const ids = tokenizer.encode(text);
                    return [ids, tokenizer.decode(ids), ids.map((id) => tokenizer.readable(id))];
                });
            });
        }""",
        [f"{site[1]}/classify/seqloom_runtime.js", descriptions, texts],
    )
    for tokenizer, found in zip(TOKENIZERS, results, strict=True):
        for text, (ids, decoded, readable) in zip(texts, found, strict=True):
            assert ids == list(tokenizer.encode(text)), (tokenizer.unit, text)
            assert decoded == tokenizer.decode(ids), (tokenizer.unit, text)
            assert readable == [tokenizer.readable(tokenizer.vocabulary.tokens[id_]) for id_ in ids]


@in_browser
def test_sound_and_images_in_the_browser(classifier_page: Any, site: tuple[Path, str]) -> None:
    image = np.random.default_rng(2).integers(0, 256, (21, 34, 3), dtype=np.uint8)
    samples = np.random.default_rng(3).normal(size=200).astype(np.float32)
    square, padded, columns, sound = classifier_page.evaluate(
        """async ([runtime, image, samples]) => {
            const { square, lineColumns, resample } = await import(runtime);
            const sound = resample(Float32Array.from(samples), 44100, 16000);
            return [[...square(image, 16, "crop")], [...square(image, 16, "pad")], lineColumns(image, 16), [...sound]];
        }""",
        [f"{site[1]}/classify/seqloom_runtime.js", to_browser(image), samples.tolist()],
    )
    np.testing.assert_array_equal(np.reshape(square, (16, 16, 3)), seqloom_runtime.square(image, 16, "crop"))
    np.testing.assert_array_equal(np.reshape(padded, (16, 16, 3)), seqloom_runtime.square(image, 16, "pad"))
    np.testing.assert_allclose(columns, seqloom_runtime.line_columns(image, 16), atol=1e-7)
    np.testing.assert_allclose(sound, seqloom_runtime.resample(samples, 44100, 16000), atol=2e-6)  # single precision


@in_browser
def test_typing_shows_the_answer(classifier_page: Any, site: tuple[Path, str]) -> None:
    (expected,) = seqloom_runtime.load(site[0] / "classify" / "model.onnx").predict(["low below"])
    assert classifier_page.title() == "classify <b>"  # markup in a name is text
    classifier_page.get_by_label("Input").fill("low below")
    playwright.expect(classifier_page.locator("#answer .answer")).to_have_text(expected["label"])
    assert classifier_page.evaluate("document.documentElement.dataset.theme") == "light"
    classifier_page.get_by_role("button", name="Theme").click()
    assert classifier_page.evaluate("document.documentElement.dataset.theme") == "dark"


@in_browser
@pytest.mark.parametrize("name", ["language_model", "classify, sound", "forecast", "classify, video"])
def test_other_inputs(browser: Any, site: tuple[Path, str], tmp_path: Path, name: str) -> None:
    """Continue a text, choose a file, record, type numbers."""
    folder = name.rsplit(", ", maxsplit=1)[-1]
    write_model(name, tmp_path, site[0] / folder)
    problems: list[str] = []
    page = open_page(browser, site, problems, folder, permissions=["microphone"], color_scheme="dark")
    answer = page.locator("#answer")
    if name == "language_model":
        page.get_by_label("Prompt").fill("a b")
        page.get_by_label("Length").fill("5")
        page.get_by_role("button", name="Continue").click()
        playwright.expect(page.locator("#answer[data-done]")).to_be_visible()
        playwright.expect(page.locator("#perplexity")).to_contain_text("perplexity")
    elif name == "forecast":
        page.get_by_label("Rows of numbers").fill("one,two\n1,2\n2,3\n3,5")
        playwright.expect(answer.locator("tbody tr")).to_have_count(2)  # the horizon
        page.get_by_label("Rows of numbers").fill("1 2 3")
        playwright.expect(answer).to_contain_text("Expected rows of 2 numbers, found one of 3.")
    elif name == "classify, sound":
        page.locator("input[type=file]").set_input_files(tmp_path / "3.wav")
        playwright.expect(answer.locator(".meter")).to_be_visible()
        (expected,) = seqloom_runtime.load(site[0] / "sound" / "model.onnx").predict([tmp_path / "3.wav"])
        playwright.expect(answer.locator(".answer")).to_have_text(expected["label"])
    else:
        frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue", "white")]
        frames[0].save(tmp_path / "clip.gif", save_all=True, append_images=frames[1:])
        page.locator("input[type=file]").set_input_files(tmp_path / "clip.gif")
        playwright.expect(answer.locator(".meter")).to_be_visible()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.context.close()
    assert problems == []


def draw(page: Any) -> None:
    """A line on the pad of a page."""
    box = page.get_by_label("Draw here").bounding_box()
    page.mouse.move(box["x"] + 40, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 100, box["y"] + 80)
    page.mouse.up()


def image_of(page: Any, label: str) -> Any:
    """The pixels of a canvas, (height, width, 3)."""
    address = page.get_by_label(label).evaluate("(canvas) => canvas.toDataURL('image/png')")
    return np.asarray(Image.open(io.BytesIO(b64decode(address.partition(",")[2]))).convert("RGB"))


@in_browser
@pytest.mark.parametrize("inverted", [False, True])
def test_drawings_have_the_ground_and_the_pen_of_the_dev_images(
    browser: Any, site: tuple[Path, str], tmp_path: Path, inverted: bool
) -> None:
    """The images of the case are light on dark; the page shows what the model reads of a drawing."""
    folder = f"drawing_{inverted}"
    write_model("classify, images", tmp_path, site[0] / folder, inverted=inverted)
    width = json.loads((site[0] / folder / "model.json").read_text())["drawing"]["ink"]["width"]
    problems: list[str] = []
    page = open_page(browser, site, problems, folder)
    playwright.expect(page.get_by_text("Dark on light" if inverted else "Light on dark")).to_be_visible()
    draw(page)
    playwright.expect(page.locator("#answer .meter")).to_be_visible()
    drawn, read = image_of(page, "Draw here"), image_of(page, "What the model reads")
    ground, mark = (255, 0x11) if inverted else (0, 255)
    assert (drawn[0] == ground).all()
    marked = np.abs(drawn[:, :, 0].astype(int) - ground) > 128
    assert drawn[marked].mean() == pytest.approx(mark, abs=20)
    assert marked.sum() == pytest.approx(np.hypot(60, 40) * 240 * width + np.pi * (120 * width) ** 2, rel=0.1)
    np.testing.assert_array_equal(read, seqloom_runtime.square(drawn, 8, "crop"))
    (expected,) = seqloom_runtime.load(site[0] / folder / "model.onnx").predict([drawn])
    playwright.expect(page.locator("#answer .answer")).to_have_text(expected["label"])
    page.get_by_role("button", name="Clear").click()
    playwright.expect(page.get_by_label("What the model reads")).to_have_count(0)
    page.context.close()
    assert problems == []


@in_browser
def test_drawn_pen_strokes_have_the_size_of_the_dev_data(browser: Any, site: tuple[Path, str], tmp_path: Path) -> None:
    write_model("transcribe", tmp_path, site[0] / "strokes")
    pen = json.loads((site[0] / "strokes" / "model.json").read_text())["drawing"]["pen"]
    problems: list[str] = []
    page = open_page(browser, site, problems, "strokes")
    playwright.expect(page.get_by_label("Draw here")).to_be_visible()
    draw(page)
    playwright.expect(page.locator("#time")).to_be_visible()
    rows = [
        [float(value) for value in row.split()]
        for row in page.get_by_label("Rows of numbers").input_value().split("\n")
    ]
    assert [row[2] for row in rows] == [*[0] * (len(rows) - 1), 1]
    # 40 of the 60 pixels between the lines of the pad are two thirds of the height of the dev data; y points
    # upwards. The border of the pad belongs to its box.
    assert sum(row[1] for row in rows) == pytest.approx(-2 / 3 * pen["height"], rel=0.05)
    assert math.hypot(*rows[1][:2]) == pytest.approx(pen["step"], rel=0.5)
    page.context.close()
    assert problems == []


@in_browser
def test_page_without_the_library_says_what_to_do(browser: Any, site: tuple[Path, str], classifier_page: Any) -> None:
    del classifier_page  # writes the page
    shutil.copytree(site[0] / "classify", site[0] / "bare")
    shutil.rmtree(site[0] / "bare" / "onnxruntime-web")
    page = open_page(browser, site, [], "bare")
    playwright.expect(page.locator("pre")).to_contain_text("npm pack onnxruntime-web@")
    page.context.close()


def test_library_is_found_where_npm_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dist = tmp_path / "node_modules" / "onnxruntime-web" / "dist"
    dist.mkdir(parents=True)
    for name in RUNTIME_FILES:
        (dist / name).write_bytes(b"")
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    assert find_onnxruntime_web() == dist
    for given in (dist, dist.parent, tmp_path / "node_modules"):
        assert find_onnxruntime_web(str(given)) == dist
    with pytest.raises(ValueError, match="expected a folder of onnxruntime-web"):
        find_onnxruntime_web(str(tmp_path))


def test_a_page_for_a_masked_language_model_is_refused(tmp_path: Path) -> None:
    case = tiny.CASES["language_model, masked"]
    task: Any = tiny.build(case, tmp_path).task
    task = task.fit(task.read(tmp_path / case.file))
    model = task.onnx_model(task.build_model().eval())
    with pytest.raises(ValueError, match="no page for masked language models"):
        write_page(model, tmp_path / "page", [], metadata={}, onnxruntime_web=None)
    assert not (tmp_path / "page").exists()
