"""Language models: the chain rule by brute force, context of window models, n-grams, generation."""

import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from seqloom.data.loading import BatchLoader
from seqloom.data.readers.text_files import DataError
from seqloom.decoding.tokens.sample import Sample
from seqloom.evaluation import evaluate
from seqloom.model import Model
from seqloom.models.generation import GivenTokens, generate_tokens, text_tokens
from seqloom.models.ngram.kneser_ney import estimate
from seqloom.models.text_scores import TextScore
from seqloom.run_config import Config
from seqloom.tasks.language_model import LanguageModel
from seqloom.training.config import TrainConfig
from seqloom.training.engine import train
from seqloom.training.gradient_update import GradientUpdate

TEXT = ["the cat sat", "the dog sat on the cat", "", "a dog", "the cat and the dog sat on the mat", "on and on"]
SMALL = {"embedding_size": 6, "decoder": {"hidden_size": 8}}


def task(lines: Sequence[str] = TEXT, **fields: Any) -> LanguageModel:
    made = LanguageModel.model_validate({"train": "train.txt", **SMALL, **fields})
    return made.fit(made.read(lines))


def random_model(fitted: LanguageModel, *, seed: int = 1) -> Any:
    torch.manual_seed(seed)
    module: Any = fitted.build_model()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    if hasattr(module, "count"):
        module.count(fitted.read(TEXT))
    return module.eval()


def score(fitted: LanguageModel, module: nn.Module, texts: Sequence[str]) -> list[TextScore]:
    with torch.no_grad():
        return fitted.predict(module, fitted.collate(list(fitted.read(texts)))).answers


KINDS: dict[str, dict[str, Any]] = {
    "neural": {},
    "window": {"model": "window", "order": 3},
    "ngram": {"model": "ngram", "order": 3},
    "characters": {"text": {"unit": "characters"}},
    "subwords": {"text": {"unit": "subwords", "vocab_size": 270}},
}


@pytest.mark.parametrize("kind", KINDS)
def test_probability_is_the_product_of_softmaxes(kind: str) -> None:
    fitted = task(**KINDS[kind])
    module = random_model(fitted)
    end = fitted.tokenizer.vocabulary.index("</s>")
    texts = ["the cat on the mat", "", "a cow"]
    for text, scored in zip(texts, score(fitted, module, texts), strict=True):
        tokens = [*fitted.tokenizer.encode(text), end]
        expected = []
        for position, token in enumerate(tokens):  # each from scratch: read everything before it
            with torch.no_grad():
                logits, _ = module(torch.tensor([[end, *tokens[:position]]]), module.start(None, 1))
            expected.append(float(logits[0, -1].double().log_softmax(dim=0)[token]))
        assert scored.log_probabilities == pytest.approx(expected, abs=1e-5)
        assert scored.log_probability == pytest.approx(sum(expected), abs=1e-4)
        assert scored.perplexity == pytest.approx(math.exp(-sum(expected) / len(expected)), rel=1e-4)
        assert str(scored) == f"{scored.log_probability:.4f}\t{scored.perplexity:.4g}"


def test_probabilities_of_all_texts_and_prefixes_sum_to_one() -> None:
    fitted = task(["a b", "b"], model="ngram", order=2)
    module = random_model(fitted)
    module.count(fitted.read(["a b", "b"]))
    # Over the tokens <unk>, a, b: texts of up to two tokens, and prefixes of longer ones.
    ended = [" ".join(words) for length in range(3) for words in product(["x", "a", "b"], repeat=length)]
    prefixes = [" ".join(words) for words in product(["x", "a", "b"], repeat=3)]
    total = sum(math.exp(scored.log_probability) for scored in score(fitted, module, ended))
    total += sum(math.exp(sum(scored.log_probabilities[:3])) for scored in score(fitted, module, prefixes))
    assert total == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_window_model_sees_order_minus_one_words(order: int) -> None:
    fitted = task(model="window", order=order)
    module = random_model(fitted)
    text = ["the", "cat", "and", "the", "dog", "sat", "on", "the", "mat"]
    (whole,) = score(fitted, module, [" ".join(text)])
    for position in range(len(text)):
        other = [*text[:position], "a", *text[position + 1 :]]
        (scored,) = score(fitted, module, [" ".join(other)])
        seen = range(position + 1, position + max(order, 2))  # at least one word is read
        for target in range(len(text) + 1):
            if target != position:
                differs = abs(scored.log_probabilities[target] - whole.log_probabilities[target]) > 1e-9
                assert differs == (target in seen)


def test_ngram_model_equals_its_estimate() -> None:
    fitted = task(model="ngram", order=3)
    encode = fitted.tokenizer.encode
    end, size = fitted.tokenizer.vocabulary.index("</s>"), len(fitted.tokenizer.vocabulary)
    expected = estimate([encode(text) for text in TEXT], order=3, start=0, end=end, vocabulary=size)
    texts = ["the cat sat on a cow", "dog dog"]
    scored = score(fitted, random_model(fitted), texts)
    for one, values in zip(scored, expected.score([encode(text) for text in texts]), strict=True):
        assert one.log_probabilities == values.tolist()


def config(fitted: LanguageModel, **settings: Any) -> Config:
    return Config(fitted, TrainConfig.model_validate({"batch_size": 3, "threads": 1, **settings}))


def test_perplexity_of_lines_by_hand() -> None:
    fitted = task()
    module = random_model(fitted)
    texts = ["the cat", "cow on the mat", ""]
    values = [value for scored in score(fitted, module, texts) for value in scored.log_probabilities]
    scores = evaluate(config(fitted), module, list(fitted.read(texts)))
    assert scores["tokens"] == len(values) == 2 + 4 + 0 + 3
    assert scores["perplexity"] == pytest.approx(math.exp(-sum(values) / len(values)), rel=1e-6)
    assert scores["loss"] == pytest.approx(-sum(values) / len(values), rel=1e-6)
    characters = sum(len(text) + 1 for text in texts)
    assert scores["bits_per_character"] == pytest.approx(-sum(values) / math.log(2) / characters, rel=1e-6)
    assert scores["unknown"] == 1


@pytest.mark.parametrize("kind", ["neural", "window"])
def test_truncated_bptt_reads_the_text_as_one_line(kind: str) -> None:
    fitted = task(model=kind, order=3)
    module = random_model(fitted)
    texts = [*TEXT, "the mat and the cat"] * 5
    scores = evaluate(config(fitted, bptt_steps=7, batch_size=1), module, list(fitted.read(texts)))
    end = fitted.tokenizer.vocabulary.index("</s>")
    stream = [end, *(token for text in texts for token in (*fitted.tokenizer.encode(text), end))]
    with torch.no_grad():
        logits, _ = module(torch.tensor([stream[:-1]]), module.start(None, 1))
    log_probabilities = logits[0].double().log_softmax(dim=-1)[range(len(stream) - 1), stream[1:]]
    assert scores["loss"] == pytest.approx(-float(log_probabilities.mean()), rel=1e-5)
    assert scores["tokens"] == len(stream) - 1
    alone = evaluate(config(fitted), module, list(fitted.read(texts)))  # each line without a past
    assert alone["tokens"] == scores["tokens"]
    assert alone["bits_per_character"] / alone["loss"] == pytest.approx(scores["bits_per_character"] / scores["loss"])


@pytest.mark.parametrize("kind", ["neural", "window", "characters"])
@pytest.mark.parametrize("steps", [0, 5])
def test_training_learns_the_text(kind: str, steps: int) -> None:
    torch.manual_seed(1)
    fitted = task(**KINDS[kind])
    settings = TrainConfig(
        epochs=12, batch_size=2, bptt_steps=steps, learning_rate=0.1, schedule="constant", clip_norm=5.0, threads=1
    )
    module = fitted.build_model()
    before = evaluate(config(fitted), module, list(fitted.read(TEXT)))["perplexity"]
    loaded = BatchLoader(lambda: fitted.read(TEXT), fitted.collate, batch_size=2, bptt_steps=steps)
    for _ in train(GradientUpdate(module, loaded, fitted.loss, settings)):
        pass
    after = evaluate(config(fitted, bptt_steps=steps, batch_size=2), module, list(fitted.read(TEXT)))["perplexity"]
    assert before == pytest.approx(len(fitted.tokenizer.vocabulary), rel=0.1)  # a fresh model guesses
    assert after < before / 2


def test_label_smoothing_affects_the_loss_only() -> None:
    plain, smooth = task(), task(label_smoothing=0.2)
    module = random_model(plain)
    batch = plain.collate(list(plain.read(TEXT)))
    with torch.no_grad():
        logits, _ = module(batch.inputs.values, mask=batch.inputs.mask)
        real = logits[batch.inputs.mask], batch.target[batch.inputs.mask]
        expected = nn.functional.cross_entropy(*real, reduction="sum", label_smoothing=0.2)
        assert float(smooth.loss(module, batch).total) == pytest.approx(float(expected), rel=1e-5)
    assert score(smooth, module, TEXT) == score(plain, module, TEXT)


# Texts that are generator


def model(fitted: LanguageModel) -> Model:
    return Model(config(fitted), random_model(fitted))


def spell(fitted: LanguageModel, tokens: Sequence[int]) -> str:
    """The text of token ids, decoded line by line."""
    lines: list[list[int]] = [[]]
    for token in tokens:
        if token == fitted.tokenizer.vocabulary.index("</s>"):
            lines.append([])
        else:
            lines[-1].append(token)
    return "\n".join(fitted.tokenizer.decode(line) for line in lines)


@pytest.mark.parametrize("kind", KINDS)
def test_generation_at_temperature_zero_is_greedy(kind: str) -> None:
    fitted = task(**KINDS[kind])
    generator = model(fitted)
    path = [fitted.tokenizer.vocabulary.index("</s>"), *fitted.tokenizer.encode("the")]
    module: Any = generator.module
    for _ in range(12):
        with torch.no_grad():
            logits, _ = module(torch.tensor([path]), module.start(None, 1))
        scores = logits[0, -1].clone()
        scores[0] = -torch.inf
        path.append(int(scores.argmax()))
    generated = "the" + "".join(generator.generate("the", length=12, lines=0, sample=Sample(temperature=0.0)))
    assert generated == spell(fitted, path[1:])


@pytest.mark.parametrize("kind", KINDS)
def test_generation_depends_on_the_seed_and_keeps_gradient_mode(kind: str) -> None:
    generator = model(task(**KINDS[kind]))
    one, same, other = (
        "".join(generator.generate("a", length=30, lines=0, sample=Sample(seed=seed))) for seed in (1, 1, 2)
    )
    assert one == same
    assert one != other
    stream = generator.generate("", length=2, lines=0)
    next(stream)
    assert torch.is_grad_enabled()


MANY = ["naïve café ☕", "日本語 テキスト", "🎈🎉 grüße", "aé"]


@pytest.mark.filterwarnings("ignore:the prompt contains tokens that the model does not know")
@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
@pytest.mark.parametrize("unit", ["characters", "words", "subwords"])
def test_generated_pieces_join_to_the_text(unit: str, algorithm: str) -> None:
    fitted = task(MANY, text={"unit": unit, "vocab_size": 270 if unit == "subwords" else 0, "algorithm": algorithm})
    generator = model(fitted)
    tokens: list[int] = []
    draw = Sample.draw

    def recording_draw(self: Sample, *arguments: Any) -> torch.Tensor:
        token = draw(self, *arguments)
        tokens.append(int(token))
        return token

    for seed in range(3):
        for prompt in ("", "aé", "日本語 テ", "aé\nnaïve"):
            tokens.clear()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Sample, "draw", recording_draw)
                pieces = list(generator.generate(prompt, length=25, lines=0, sample=Sample(seed=seed)))
            end = fitted.tokenizer.vocabulary.index("</s>")
            read = [token for line in prompt.split("\n") for token in (end, *fitted.tokenizer.encode(line))][1:]
            assert spell(fitted, read) + "".join(pieces) == spell(fitted, [*read, *tokens])
            assert len(tokens) == 25
            assert not any(piece.endswith("\ufffd") for piece in pieces[:-1])


def test_generation_stops_at_the_end_of_a_line_unless_told_otherwise() -> None:
    generator = model(task(text={"unit": "characters"}))
    for seed in range(5):
        options: dict[str, Any] = {"length": 200, "sample": Sample(seed=seed)}
        whole = "".join(generator.generate("a", lines=0, **options))
        assert whole.count("\n") > 2
        parts = whole.splitlines(keepends=True)
        assert "".join(generator.generate("a", **options)) == parts[0]
        assert "".join(generator.generate("a", lines=2, **options)) == "".join(parts[:2])


def test_padding_is_never_generated() -> None:
    generator = model(task(text={"unit": "characters"}))
    module: Any = generator.module
    module.output.bias.data[0] = 100.0
    assert set("".join(generator.generate(length=50, lines=0))) <= {*"".join(TEXT), "\n", "\ufffd"}


# Errors and ARPA files


def test_missing_text_and_missing_fit() -> None:
    with pytest.raises(DataError, match=r"train\.txt: found no text to train on"):
        task(["", ""])
    with pytest.raises(ValueError, match="call fit first"):
        _ = LanguageModel(train="x").tokenizer


def test_bidirectional_decoders_are_refused() -> None:
    with pytest.raises(ValueError, match=r'for both directions set task\.direction = "both"'):
        task(decoder={"bidirectional": True}).build_model()


@pytest.mark.parametrize("order", [2, 4])  # kenlm needs at least 2
def test_kenlm_reads_the_exported_model(order: int, tmp_path: Path) -> None:
    fitted = task(model="ngram", order=order)
    model(fitted).export(tmp_path / "model.arpa")
    kenlm = pytest.importorskip("kenlm")
    peer = kenlm.Model(str(tmp_path / "model.arpa"))
    for text, scored in zip(TEXT, score(fitted, random_model(fitted), TEXT), strict=True):
        assert peer.score(text) * math.log(10) == pytest.approx(scored.log_probability, abs=1e-4)
    with pytest.raises(ValueError, match=r"only n-gram models are exported in this format; .* is exported as \.onnx"):
        model(task()).export(tmp_path / "other.arpa")


def test_linear_attention_needs_no_window() -> None:
    options = {"heads": 2, "attention": "linear"}
    fitted = task(decoder={"cell": "transformer", "hidden_size": 8, "options": options})
    assert random_model(fitted).path == "layers: LinearAttention is not compiled, only softmax attention"


@pytest.mark.parametrize(
    ("lines", "settings", "expected"),
    [
        (
            ["the cat sat"],
            {"text": {"unit": "characters"}},
            "characters, the default for texts below 2 million characters; task.text.unit=words changes that",
        ),
        (["cat", "dog"], {"text": {"unit": "characters"}}, "characters, the default for lines of a single word"),
        (["the cat sat"], {"model": "ngram"}, "words, the default for such a model; task.text.unit=characters"),
        (["a b " * 9000] * 60, {}, "words, the default for texts of 2 million characters and more"),
    ],
)
def test_training_says_what_the_tokens_are(lines: list[str], settings: Any, expected: str) -> None:
    task = LanguageModel.model_validate({"train": "x", "text": {"unit": "words"}, **settings})
    (note,) = task.resolve(lines)[1]
    assert note.startswith(f"the tokens are {expected}")


def test_training_does_not_repeat_which_tokens_were_chosen() -> None:
    assert LanguageModel.model_validate({"train": "x", "text": {"unit": "words"}}).resolve(["the cat sat"])[1] == ()


PROGRAM = "def sign(x):\n    if x > 0:\n\n        return 1\n    return 0\n\nprint ( sign(2) )"


def test_code_keeps_its_lines_and_their_indentation(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(PROGRAM + "\n")
    fitted = LanguageModel.model_validate({"train": str(tmp_path), **SMALL, "text": {"split": "lines"}})
    fitted = fitted.fit(fitted.read(tmp_path))
    examples = list(fitted.read(tmp_path))
    assert [example.text for example in examples] == PROGRAM.split("\n")
    assert [len(example) for example in examples] == [2, 5, 1, 3, 3, 1, 4]  # an empty line has its end only
    assert fitted.tokenizer.vocabulary.decode(fitted.tokenizer.encode(examples[3].text)) == ["        ", "return", "1"]
    given = GivenTokens(tokens=text_tokens(fitted.tokenizer, PROGRAM))
    tokens = generate_tokens(random_model(fitted), fitted.tokenizer, "", length=100, sample=given)
    assert "".join(token.text for token in tokens) == PROGRAM


def test_a_folder_is_read_in_the_order_of_its_files(tmp_path: Path) -> None:
    for name, text in (("b.txt", "three"), ("a.txt", "one\ntwo"), (".hidden", "x")):
        (tmp_path / name).write_text(text)
    task = LanguageModel(train=str(tmp_path))
    assert [line.text for line in task.read(tmp_path)] == ["one", "two", "three"]
    assert task.resolve(tmp_path)[1][0] == "the text of 2 files, in the order of their names"
