"""Object files in C programs, WebAssembly modules in Node, and their headers."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from tests.contracts import tiny

from seqloom.export_check import ExportError
from seqloom.kernels.llvm.target import PORTABLE, native, this_architecture
from seqloom.standalone.exported import choose_target, write
from seqloom.standalone.header import identifier
from seqloom.standalone.interface import StandaloneModel

COMPILER, NODE = shutil.which("cc"), shutil.which("node")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler (cc)")
needs_node = pytest.mark.skipif(NODE is None, reason="there is no Node (node)")


class Trained(NamedTuple):
    """A tiny model with random weights, and examples for it."""

    task: Any
    model: StandaloneModel
    examples: list[Any]


def build(name: str, folder: Path, **fields: Any) -> Trained:
    case = tiny.CASES[name]
    case = case._replace(fields={**case.fields, **fields})
    task, module = tiny.fit_random(case, folder)
    return Trained(task, task.standalone_model(module), list(task.read(folder / f"dev-{case.file}")))


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return build("classify", tmp_path_factory.mktemp("classify"))


def export(trained: Trained, path: Path, **options: Any) -> Any:
    with torch.no_grad():
        return write(trained.model, path, [trained.examples], **options)


CLASSIFY = """
#include "reviews.h"
#include <stdio.h>

/* Prints the best label and all probabilities of the words on the command line. */
int main(int count, char **words) {
    static unsigned char workspace[REVIEWS_WORKSPACE_SIZE(64) + 1];  /* used from an odd address on */
    int32_t tokens[64];
    float probabilities[REVIEWS_PROBABILITIES_SIZE];
    int best = 0;
    for (int i = 1; i < count; i++) tokens[i - 1] = reviews_find_token(words[i]);
    int32_t error = reviews_predict(tokens, count - 1, probabilities, workspace + 1, sizeof workspace - 1);
    if (error) return error;
    for (int i = 0; i < REVIEWS_PROBABILITIES_SIZE; i++) {
        if (probabilities[i] > probabilities[best]) best = i;
        printf("%.9g ", probabilities[i]);
    }
    printf("%s", reviews_label(best));
    if (reviews_label(-1) || reviews_label(REVIEWS_LABEL_COUNT)) return 9;
    tokens[0] = REVIEWS_TOKEN_COUNT;
    if (reviews_workspace_size(7) != REVIEWS_WORKSPACE_SIZE(7)) return 9;
    if (reviews_predict(tokens, 1, probabilities, workspace, sizeof workspace) != 2) return 10;
    if (reviews_predict(tokens, -1, probabilities, workspace, sizeof workspace) != 1) return 11;
    if (reviews_predict(tokens, 7, probabilities, workspace, REVIEWS_WORKSPACE_SIZE(7) - 1) != 3) return 12;
    return 0;
}
"""


def compile_c(folder: Path, source: str, name: str) -> Path:
    """Compile a C program with an object file, without the mathematical library."""
    (folder / "main.c").write_text(source)
    command = [str(COMPILER), "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "main.c", f"{name}.o"]
    subprocess.run([*command, "-o", "program"], cwd=folder, check=True)
    return folder / "program"


def run(program: Path, arguments: list[str]) -> str:
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout


@needs_compiler
@pytest.mark.parametrize("target", ["", "native"])
def test_c_program_gives_the_answers_of_the_model(classifier: Trained, target: str, tmp_path: Path) -> None:
    check = export(classifier, tmp_path / "reviews.o", target=target)
    assert check.examples == len(classifier.examples)
    assert check.size == (tmp_path / "reviews.o").stat().st_size
    expected = classifier.model.expected(classifier.examples)["probabilities"]
    names, program = classifier.task.fitted.labels.names, compile_c(tmp_path, CLASSIFY, "reviews")
    for example, wanted in zip(classifier.examples[:4], expected, strict=False):
        *numbers, label = run(program, example.content.split()).split()
        assert np.abs(np.array(numbers, dtype=float) - wanted).max() < 1e-6
        assert label == names[int(wanted.argmax())]


@needs_compiler
@pytest.mark.skipif("linux" not in native().triple, reason="the options are those of a linker for Linux")
def test_object_file_needs_nothing(classifier: Trained, tmp_path: Path) -> None:
    """Linked without the C library, nothing is missing."""
    export(classifier, tmp_path / "reviews.o")
    command = [str(COMPILER), "-shared", "-nostdlib", "-Wl,--no-undefined", "reviews.o", "-o", "reviews.so"]
    result = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")


TAG = """
#include "tagger.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

int main(int count, char **words) {
    static unsigned char workspace[TAGGER_WORKSPACE_SIZE(64)];
    static int32_t ids[64], characters[64][TAGGER_CHARACTERS_SIZE], labels[64];
    float probabilities[64];
    for (int i = 1; i < count; i++) {
        char lower[64] = {0};
        for (size_t j = 0; j < strlen(words[i]); j++) lower[j] = (char)tolower((unsigned char)words[i][j]);
        ids[i - 1] = tagger_find_word(lower);
        for (size_t j = 0; j < strlen(words[i]); j++) {
            char letter[2] = {words[i][j], 0};
            characters[i - 1][j] = tagger_find_character(letter);
        }
    }
    if (tagger_predict(ids, characters[0], count - 1, labels, probabilities, workspace, sizeof workspace)) return 1;
    for (int i = 0; i + 1 < count; i++) printf("%s %.9g\\n", tagger_label(labels[i]), probabilities[i]);
    return 0;
}
"""


@needs_compiler
def test_c_program_tags_words(tmp_path: Path) -> None:
    trained = build("tag", tmp_path)
    export(trained, tmp_path / "tagger.o")
    expected, program = trained.model.expected(trained.examples), compile_c(tmp_path, TAG, "tagger")
    for row, example in enumerate(trained.examples[:3]):
        words = list(example.words)
        lines = [line.split() for line in run(program, words).splitlines()]
        labels = [trained.task.fitted.labels.names[label] for label in expected["labels"][row, : len(words)]]
        assert [line[0] for line in lines] == labels
        difference = np.array([float(line[1]) for line in lines]) - expected["probabilities"][row, : len(words)]
        assert np.abs(difference).max() < 1e-6


WASM = """
import { readFileSync } from "node:fs";

const { instance } = await WebAssembly.instantiate(readFileSync("reviews.wasm"));
const { memory, __heap_base, reviews_predict, reviews_find_token, reviews_label, reviews_workspace_size } =
    instance.exports;
const size = reviews_workspace_size(64);
const start = __heap_base.value;
memory.grow(Math.ceil((size + 4096) / 65536));
const bytes = new Uint8Array(memory.buffer);

function text(address) {
    let end = address;
    while (bytes[end]) end++;
    return new TextDecoder().decode(bytes.subarray(address, end));
}

function write(string) {
    bytes.set([...new TextEncoder().encode(string), 0], start);
    return start;
}

const answers = JSON.parse(process.argv[2]).map((words) => {
    const ids = words.map((word) => reviews_find_token(write(word)));
    new Int32Array(memory.buffer, start, ids.length).set(ids);
    const error = reviews_predict(start, ids.length, start + 1024, start + 2048, size);
    const count = Number(process.argv[3]);
    const probabilities = [...new Float32Array(memory.buffer, start + 1024, count)];
    return { error, probabilities, labels: probabilities.map((_, index) => text(reviews_label(index))) };
});
console.log(JSON.stringify({ answers, bad: reviews_predict(start, -1, start, start, size) }));
"""


@needs_node
def test_webassembly_gives_the_answers_of_the_model(classifier: Trained, tmp_path: Path) -> None:
    export(classifier, tmp_path / "reviews.wasm")
    (tmp_path / "main.mjs").write_text(WASM)
    expected = classifier.model.expected(classifier.examples)["probabilities"]
    sentences = json.dumps([example.content.split() for example in classifier.examples])
    command = [str(NODE), "main.mjs", sentences, str(expected.shape[1])]
    output = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    result = json.loads(output)
    assert result["bad"] == 1
    for answer, wanted in zip(result["answers"], expected, strict=True):
        assert answer["error"] == 0
        assert np.abs(np.array(answer["probabilities"]) - wanted).max() < 1e-6
        assert tuple(answer["labels"]) == classifier.task.fitted.labels.names


def elf_symbols(data: bytes) -> dict[str, bool]:
    """The global symbols of a 64-bit ELF file: whether each is defined."""
    start, count = int.from_bytes(data[40:48], "little"), int.from_bytes(data[60:62], "little")

    def section(index: int) -> tuple[int, ...]:
        entry = data[start + 64 * index : start + 64 * (index + 1)]
        fields = (4, 8), (24, 32), (32, 40), (40, 44)  # type, offset, size, link
        return tuple(int.from_bytes(entry[low:high], "little") for low, high in fields)

    symbols = {}
    for kind, offset, size, link in map(section, range(count)):
        if kind != 2:
            continue
        texts = section(link)[1]
        for place in range(offset, offset + size, 24):
            name = int.from_bytes(data[place : place + 4], "little")
            info, home = data[place + 4], int.from_bytes(data[place + 6 : place + 8], "little")
            if info >> 4 == 1:
                symbols[data[texts + name :].partition(b"\0")[0].decode()] = home != 0
    return symbols


@pytest.mark.skipif("linux" not in native().triple, reason="object files are ELF on Linux only")
def test_object_file_for_another_processor(classifier: Trained, tmp_path: Path) -> None:
    """It has the right machine, all functions, and needs none."""
    target, machine = ("x86-64-v3", 62) if this_architecture() == "aarch64" else ("aarch64", 183)
    export(classifier, tmp_path / "reviews.o", target=target)
    data = (tmp_path / "reviews.o").read_bytes()
    assert data[:5] == b"\x7fELF\x02"
    assert int.from_bytes(data[18:20], "little") == machine
    functions = ("predict", "workspace_size", "label", "token", "find_token")
    assert elf_symbols(data) == {f"reviews_{name}": True for name in functions}


def test_nothing_is_written_if_an_answer_differs(classifier: Trained, tmp_path: Path) -> None:
    def wrong(examples: list[Any]) -> Any:
        return {name: values + 2e-5 for name, values in classifier.model.expected(examples).items()}

    model = StandaloneModel(**{**vars(classifier.model), "expected": wrong})
    with pytest.raises(ExportError, match="probabilities differs by 2"):
        export(classifier._replace(model=model), tmp_path / "reviews.o")
    with pytest.raises(ExportError, match="no examples"):
        export(classifier._replace(examples=[]), tmp_path / "reviews.o")
    assert not list(tmp_path.iterdir())


def test_targets() -> None:
    assert choose_target("", Path("a.wasm")) is PORTABLE["wasm32"]
    assert choose_target("", Path("a.o")).architecture == this_architecture()
    assert choose_target("native", Path("a.o")) is native()
    for name, path, message in (
        ("arm", "a.o", 'unknown target "arm" .allowed: x86-64, '),
        ("aarch64", "a.wasm", "is for wasm32, not for the target aarch64"),
        ("wasm32", "a.o", "suffix .wasm"),
    ):
        with pytest.raises(ExportError, match=message):
            choose_target(name, Path(path))


@pytest.mark.parametrize(
    ("name", "result"),
    [("tagger", "tagger"), ("my-model.v2", "my_model_v2"), ("2nd", "model_2nd"), ("for", "model_for")],
)
def test_names_in_c(name: str, result: str) -> None:
    assert identifier(name) == result
