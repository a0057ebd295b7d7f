"""Translation, compared with step-by-step probabilities and scores counted by hand."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file

from seqloom import workflow
from seqloom.config import Document
from seqloom.data.readers.parallel import Pair
from seqloom.data.readers.text_files import DataError
from seqloom.data.text.vocabulary import END
from seqloom.metrics.text import bleu
from seqloom.models.decoder import step
from seqloom.models.generation import Candidate
from seqloom.run_config import Config
from seqloom.tasks.translate import Translate, Translation
from seqloom.training.config import TrainConfig

PAIRS = [("a b", "x y z"), ("b a c", "y"), ("c", "z z"), ("a b", "x"), ("", "y x")]
SMALL = {
    "embedding_size": 4,
    "encoder": {"cell": "gru", "hidden_size": 5, "bidirectional": True},
    "decoder": {"cell": "gru", "hidden_size": 6},
}
CLOSE = 1e-5  # float32, sums of some dozen terms


def task(**fields: Any) -> Translate:
    return Translate.model_validate({"train": "train.tsv", **SMALL, **fields})


def fit(**fields: Any) -> tuple[Translate, Any, list[Pair]]:
    fresh = task(**fields)
    pairs = list(fresh.read(PAIRS))
    fitted = fresh.fit(pairs)
    torch.manual_seed(2)
    model: Any = fitted.build_model()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return fitted, model.eval(), pairs


@torch.no_grad()
def stepwise_log_probabilities(model: Any, batch: Any, row: int, tokens: list[int], *, end: int) -> list[float]:
    """The log-probability of each token of one row, step by step."""
    state = model.start(*(tensor[row : row + 1, : int(batch.inputs.lengths[row])] for tensor in batch.inputs))
    last, log_probabilities = end, []
    for token in tokens:
        scores, state = step(model.decoder, torch.tensor([last]), state)
        log_probabilities.append(scores[0, token].item())
        last = token
    return log_probabilities


def test_collate_encodes_sources_and_targets() -> None:
    fitted, _, pairs = fit()
    assert fitted.learned is not None
    assert fitted.learned.source.vocabulary.tokens == ("<pad>", "<unk>", END, "a", "b", "c")
    assert fitted.learned.target is not None
    assert fitted.learned.target.vocabulary.tokens == ("<pad>", "<unk>", END, "x", "y", "z")
    batch = fitted.collate(pairs[:2])
    assert batch.inputs.values.tolist() == [[3, 4, 2, 0], [4, 3, 5, 2]]
    assert batch.target.values.tolist() == [[3, 4, 5, 2], [4, 2, 0, 0]]
    assert batch.items == 6
    backwards = fitted.model_copy(update={"reverse_source": True}).collate(pairs[:2])
    assert backwards.inputs.values.tolist() == [[4, 3, 2, 0], [5, 3, 4, 2]]


def test_shared_vocabulary() -> None:
    fitted, model, _ = fit(shared_vocab=True)
    assert fitted.learned is not None
    assert fitted.learned.target is None
    assert len(fitted.learned.source.vocabulary) == 3 + 6
    assert model.encoder.embed.embedding is model.decoder.embed
    assert model.decoder.output.weight is model.decoder.embed.weight
    with pytest.raises(ValidationError, match=r"differs from task\.source"):
        task(shared_vocab=True, target={"unit": "characters"})


@pytest.mark.parametrize("style", ["luong", "bahdanau", "none"])
def test_the_loss_follows_the_chain_rule(style: str) -> None:
    fitted, model, pairs = fit(attention={"style": style}, label_smoothing=0.0)
    batch = fitted.collate(pairs)
    loss = fitted.loss(model, batch)
    rows = [batch.target.values[row, : int(batch.target.lengths[row])].tolist() for row in range(len(pairs))]
    log_probabilities = [
        stepwise_log_probabilities(model, batch, row, tokens, end=2) for row, tokens in enumerate(rows)
    ]
    assert float(loss.total.detach()) == pytest.approx(-math.fsum(map(math.fsum, log_probabilities)), rel=CLOSE)
    assert loss.items == sum(map(len, log_probabilities))
    with torch.no_grad():
        answers = fitted.predict(model, batch).answers
    for answer, expected in zip(answers, log_probabilities, strict=True):
        assert answer.target_log_probabilities == pytest.approx(expected, rel=CLOSE, abs=CLOSE)


def test_greedy_search_takes_the_most_probable_token() -> None:
    fitted, model, pairs = fit(max_length={"factor": 1.0, "offset": 3}, search={"name": "greedy"})
    batch = fitted.collate(pairs)._replace(target=None)
    with torch.no_grad():
        answers = fitted.predict(model, batch).answers
    names = fitted.learned.target.vocabulary if fitted.learned and fitted.learned.target else None
    assert names is not None
    for row, answer in enumerate(answers):
        state = model.start(*(tensor[row : row + 1, : int(batch.inputs.lengths[row])] for tensor in batch.inputs))
        last, tokens = 2, []
        for _ in range(int(batch.inputs.lengths[row]) - 1 + 3):
            scores, state = step(model.decoder, torch.tensor([last]), state)
            scores[:, :2] = -math.inf  # neither padding nor <unk> is ever generated
            last = int(scores.argmax())
            tokens.append(last)
            if last == 2:
                break
        assert answer.tokens == names.decode(token for token in tokens if token != 2)
        assert answer.text == " ".join(answer.tokens)
        assert answer.target_log_probabilities == answer.target_correct == []
        assert answer.score == pytest.approx(math.fsum(answer.log_probabilities))


def test_beam_search_returns_the_n_best_in_order() -> None:
    fitted, model, pairs = fit(search={"name": "beam", "size": 4, "nbest": 3, "length_penalty": "none"})
    with torch.no_grad():
        answers = fitted.predict(model, fitted.collate(pairs)).answers
    for answer in answers:
        assert len(answer.nbest) == 3
        assert (answer.nbest[0].text, answer.nbest[0].score) == (answer.text, answer.score)
        assert len({candidate.text for candidate in answer.nbest}) == 3
        scores = [candidate.score for candidate in answer.nbest]
        assert scores == sorted(scores, reverse=True)


def test_several_answers_are_printed_with_their_scores() -> None:
    fitted, model, pairs = fit(search={"name": "beam", "size": 4, "nbest": 3})
    (answer, *_) = fitted.predict(model, fitted.collate(pairs)).answers
    assert str(answer) == "".join(f"{one.text}\t{one.score:.4f}\n" for one in answer.nbest)
    fitted, model, pairs = fit()
    (answer, *_) = fitted.predict(model, fitted.collate(pairs)).answers
    assert str(answer) == answer.text


def test_unknown_source_tokens_come_with_the_answer() -> None:
    fitted, model, _ = fit()
    examples = list(fitted.read(["a b", "d a ß d"]))
    answers = fitted.predict(model, fitted.collate(examples)).answers
    assert [answer.unknown for answer in answers] == [[], ["d", "ß"]]


def test_json_shows_subwords_as_text() -> None:
    subwords = {"unit": "subwords", "vocab_size": 300}
    text = "schöne Grüße"
    for algorithm in ("bpe", "unigram"):
        fresh = task(target={**subwords, "algorithm": algorithm})
        fitted = fresh.fit(fresh.read([("a", text)] * 9))
        assert fitted.learned is not None
        assert fitted.learned.target is not None
        tokens = fitted.learned.target.tokens(text)
        answer = Translation(text, 0.0, tokens, [], [Candidate(text, 0.0, 0.0, tokens, [])], [], [])
        value = fitted.to_json(answer)
        assert "".join(value["tokens"]).strip() == text
        assert value["nbest"][0]["tokens"] == value["tokens"]
        assert not {"Ġ", "▁"} & set("".join(value["tokens"]))


def test_invalid_search_settings() -> None:
    values = ["task.name=translate", "task.train=x"]
    with pytest.raises(ValueError, match=r'unknown key "task\.search\.siz"; did you mean "task\.search\.size"\?'):
        Config.build(Document.empty([*values, "task.search={ name = 'beam', siz = 3 }"]))
    with pytest.raises(ValueError, match=r'task\.search\.name: expected one of: .*; got "bean"; did you mean "beam"\?'):
        Config.build(Document.empty([*values, "task.search.name=bean"]))


def answer(text: str, target: list[float], forced: list[bool]) -> Translation:
    return Translation(text, 0.0, text.split(), [], [], target, forced)


def test_scores_equal_those_counted_by_hand() -> None:
    fitted, _, pairs = fit()
    hypotheses = ["x y z", "y x", "z z", "x y z", ""]
    log_probabilities = [[-1.0] * (len(str(pair.target).split()) + 1) for pair in pairs]
    correct = [[True] * (len(row) - 1) + [False] for row in log_probabilities]  # the end does not count
    correct[0][0] = False
    scores = fitted.score([answer(*row) for row in zip(hypotheses, log_probabilities, correct, strict=True)], pairs)
    # "a b" has two targets, and the hypothesis is the first: four sources, two of them correct.
    assert (scores["exact_match"], scores["sources"], scores["examples"]) == (0.5, 4, 5)
    # One token too many for "b a c", and two missing for the empty source, of 3 + 1 + 2 + 2.
    assert scores["token_error_rate"] == pytest.approx(3 / 8)
    assert scores["loss"] == 1
    assert scores["forced_accuracy"] == pytest.approx(8 / 9)
    # Line by line: 0 + 1 + 0 + 2 + 2 errors of 9 tokens.
    assert scores["free_accuracy"] == pytest.approx(1 - 5 / 9)
    assert scores["gap"] == pytest.approx(8 / 9 - 4 / 9)
    assert scores["bleu"] == bleu(hypotheses, [str(pair.target) for pair in pairs]).score
    assert "case:lc" in scores["bleu_lower_signature"]


def test_characters_are_scored_by_bleu_on_request_only() -> None:
    fitted, model, pairs = fit(target={"unit": "characters"})
    with torch.no_grad():
        answers = fitted.predict(model, fitted.collate(pairs)).answers
    assert "bleu" not in fitted.score(answers, pairs)
    assert next(iter(fitted.score(answers, pairs))) == "exact_match"
    by_chrf = fitted.model_copy(update={"metric": "chrf"})
    assert {"bleu", "chrf"} <= set(by_chrf.score(answers, pairs))


@pytest.mark.parametrize(
    ("fields", "metric", "higher"),
    [
        ({}, "bleu", True),
        ({"target": {"unit": "characters"}}, "exact_match", True),
        ({"metric": "token_error_rate"}, "token_error_rate", False),
        ({"metric": "loss"}, "loss", False),
    ],
)
def test_main_metric(fields: dict[str, Any], metric: str, higher: bool) -> None:
    chosen = task(**fields)
    assert (chosen.main_metric, chosen.higher_is_better) == (metric, higher)


@pytest.mark.parametrize(
    ("metric", "target", "guess", "value"),
    [
        ("rouge_l", "the cat was on the mat", "the cat sat on the mat", 5 / 6),
        ("bracket_f1", "(S (NP DT NN ) (VP VI ) )", "(S (NP DT NN ) (XP VI ) )", 2 / 3),
        ("execution", "repeat 2\n    left", "left\nleft", 1.0),
    ],
)
def test_metrics_of_summaries_trees_and_programs(metric: str, target: str, guess: str, value: float) -> None:
    examples = list(task().read([("a", target), ("b", target)]))
    translator = task(metric=metric, target={"split": "lines"}).fit(examples)
    answers = [answer(guess, [-1.0], [True]), answer(target, [-1.0], [True])]
    scores = translator.score(answers, examples)
    assert next(iter(scores)) == metric == translator.main_metric
    assert scores[metric] == translator.metric_sums(answers, examples).whole == pytest.approx((1 + value) / 2)
    assert scores["exact_match"] == 0.5
    low, high = scores[f"{metric}_interval"]
    assert low <= scores[metric] <= high
    alone = translator.score(answers[:1], examples[:1])
    assert alone[metric] == pytest.approx(value)
    assert ("rouge_1" in scores) == (metric == "rouge_l")


@pytest.mark.parametrize(
    ("metric", "good", "bad", "message"),
    [
        ("bracket_f1", "(S (NP DT ) )", "(S (NP DT )", r"^input:2: .*needs trees, found '\(S \(NP DT \)'"),
        ("execution", "left", "jump", r"^input:2: .*needs turtle programs: line 1: expected forward"),
    ],
)
def test_references_that_a_metric_cannot_read_are_named(metric: str, good: str, bad: str, message: str) -> None:
    translator = task(metric=metric)
    translator.check_targets(list(translator.read([("a", good), ("b", good)])))
    with pytest.raises(DataError, match=message):
        translator.check_targets(list(translator.read([("a", good), ("b", bad)])))


def test_line_breaks_matter_where_they_are_tokens() -> None:
    examples = list(task().read([("a", "repeat 2\n    left"), ("b", "left")]))
    answers = [answer("repeat 2\nleft", [-1.0], [True]), answer("left", [-1.0], [True])]
    for split, matches in (("lines", 0.5), ("whitespace", 1.0)):
        translator = task(metric="exact_match", target={"split": split}).fit(examples)
        assert translator.score(answers, examples)["exact_match"] == matches


def test_max_lengths_follow_the_training_data() -> None:
    fitted, _, _ = fit()
    assert fitted.learned is not None
    assert fitted.learned.ratio == pytest.approx(2, rel=0.01)  # "c" becomes "z z"; the empty source counts as one
    assert fitted._max_lengths(torch.tensor([1, 3])).tolist() == [10, 16]


def test_scheduled_sampling_in_training_only() -> None:
    fitted, model, pairs = fit(scheduled_sampling={"schedule": "linear", "offset": 0.3, "slope": 0.1})
    plain, _, _ = fit()
    batch = fitted.collate(pairs)
    alone = float(plain.loss(model, batch).total.detach())
    assert float(fitted.loss(model, batch).total.detach()) == alone
    model.train()
    torch.manual_seed(1)
    losses = {round(float(fitted.loss(model, batch).total.detach()), 4) for _ in range(5)}
    assert len(losses) > 1
    fitted.loss(model, batch).total.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    for _ in range(3):
        model.mixer.after_update()
    assert model.mixer.settings.probability(int(model.mixer.updates)) == pytest.approx(0)


def test_scheduled_sampling_counts_updates_not_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.run_plots.draw", lambda *_, **__: None)
    (tmp_path / "t.tsv").write_text("a\tb\nc\td\ne f\tg\nh\ti\n" * 3)
    values = ["task.name=translate", f"task.train={tmp_path / 't.tsv'}", "task.dev_fraction=0.2", "train.accumulate=2"]
    values += [
        "task.scheduled_sampling.schedule=exponential",
        "train.updates=5",
        "train.batch_size=3",
        "task.encoder.hidden_size=4",
    ]
    run = workflow.train(Config.build(Document.empty([*values, "task.decoder.hidden_size=4"])), output=tmp_path / "run")
    assert int(run.load("last").model["mixer.updates"]) == 5


def test_missing_targets() -> None:
    fitted, model, _ = fit()
    unlabelled = list(fitted.read_inputs(["a b"]))
    with pytest.raises(DataError, match=r"no target; training needs a target for each source: .* set task\.separator"):
        task().fit(unlabelled)
    with pytest.raises(DataError, match="found no examples"):
        task().fit([])
    with pytest.raises(DataError, match=r"all targets are empty; set task\.separator"):
        task().fit(task().read([("a", ""), ("b", "")]))
    with pytest.raises(ValueError, match="cannot compute the loss"):
        fitted.loss(model, fitted.collate(unlabelled))
    with pytest.raises(DataError, match="input:1: no target; evaluation needs"):
        fitted.score([answer("x", [], [])], unlabelled)


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("x.csv", "en,de\nyes,ja\nno,nein\n", ("en", "de")),
        ("x.csv", "id;target;source\n1;ja;yes\n2;nein;no\n", ("source", "target")),
        ("x.tsv", "question\tanswer\nyes\tja\nno\tnein\n", ("question", "answer")),
        ("x.json", '[{"input": "yes", "output": "ja"}, {"input": "no", "output": "nein"}]', ("input", "output")),
    ],
)
def test_columns_of_pairs_become_explicit(tmp_path: Path, name: str, text: str, columns: tuple[str, str]) -> None:
    path = tmp_path / name
    path.write_text(text)
    resolved, (note,) = task().resolve(path)
    assert (resolved.source_column, resolved.target_column) == columns
    assert f"{columns[0]!r}, target from column " in note
    assert [(pair.source, pair.target) for pair in resolved.read(path)] == [("yes", "ja"), ("no", "nein")]


def test_one_column_is_not_source_and_target(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("en,de\nyes,ja\n")
    with pytest.raises(DataError, match=r"task\.source_column and task\.target_column are both the column 'en'"):
        task(source_column="en", target_column="en").resolve(path)
    with pytest.raises(DataError, match=r"no column 'fr' \(task\.target_column\); the header has en, de"):
        task(source_column="en", target_column="fr").resolve(path)
    resolved, _ = task(target_column="en").resolve(path)
    assert resolved.source_column == "de"


def test_targets_of_few_recurring_words_are_judged_by_exact_matches(tmp_path: Path) -> None:
    file = tmp_path / "commands.tsv"
    values = {"task.name": "translate", "task.train": str(file)}
    file.write_text("walk twice\tWALK WALK\njump twice\tJUMP JUMP\n" * 20)
    assert Config.build(Document.empty(values=values)).task.main_metric == "exact_match"
    assert Config.build(Document.empty(["task.metric=bleu"], values=values)).task.main_metric == "bleu"
    file.write_text("".join(f"number {number} is here\tdie Zahl {number} ist da\n" for number in range(40)))
    assert Config.build(Document.empty(values=values)).task.main_metric == "bleu"


def test_a_pair_without_a_source_is_an_empty_input() -> None:
    assert [task().is_empty_input(pair) for pair in task().read(PAIRS)] == [False] * 4 + [True]


SUBWORDS = {"unit": "subwords", "vocab_size": 280}


def random_tokens(pair: Pair) -> tuple[list[int], list[int]]:
    assert pair.tokens is not None
    return pair.tokens


def test_bpe_dropout_splits_training_pairs_anew_and_nothing_else() -> None:
    texts = [(f"lower {number} newer", f"tiefer {number} neuer") for number in range(30)]
    fresh = task(source=SUBWORDS, target=SUBWORDS, bpe_dropout=0.4)
    fitted = fresh.fit(fresh.read(texts))
    assert fitted.learned is not None
    assert fitted.learned.target is not None
    (pair,) = fresh.read(texts[:1])
    random = np.random.default_rng(1)
    assert fitted.augment_example is not None
    varied = [fitted.augment_example(pair, random) for _ in range(20)]
    sources, targets = zip(*map(random_tokens, varied), strict=True)
    assert len(set(map(tuple, sources))) > 5
    assert len(set(map(tuple, targets))) > 5
    end = fitted.learned.source.vocabulary.index(END)
    batch = fitted.collate(varied)
    assert batch.target is not None
    assert batch.items == sum(len(target) + 1 for target in targets)
    for row, tokens in enumerate(sources):
        source = batch.inputs.values[row, : len(tokens) + 1].tolist()
        assert source == [*tokens, end]
        assert fitted.learned.source.decode(source) == pair.source
        assert fitted.learned.target.decode(batch.target.values[row].tolist()) == pair.target
    assert fitted.collate([pair]).inputs.values.tolist() == [[*fitted.learned.source.encode(pair.source), end]]


def test_bpe_dropout_of_one_side() -> None:
    fresh = task(source=SUBWORDS, bpe_dropout=0.4)
    fitted = fresh.fit(fresh.read(PAIRS))
    assert fitted.learned is not None
    assert fitted.learned.target is not None
    (pair,) = fresh.read([("a b", "x y z")])
    assert fitted.augment_example is not None
    varied = fitted.augment_example(pair, np.random.default_rng(1))
    assert random_tokens(varied)[1] == fitted.learned.target.encode("x y z")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "bpe_dropout needs subwords"),
        ({"source": {"unit": "subwords", "algorithm": "unigram"}}, "bpe_dropout needs subwords"),
        ({"source": SUBWORDS, "pretrained": {"file": "a.vec"}}, "cannot be combined with pretrained vectors"),
    ],
)
def test_bpe_dropout_is_refused_where_it_has_no_effect(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        task(bpe_dropout=0.1, **fields)


def test_training_with_bpe_dropout_resumes_bit_for_bit(tmp_path: Path) -> None:
    rows = "".join(f"lower {number} newer\ttiefer {number} neuer\n" for number in range(12))
    (tmp_path / "train.tsv").write_text(rows)

    def train(output: str, epochs: int) -> Path:
        settings = TrainConfig(epochs=epochs, batch_size=4, schedule="constant", threads=1)
        options: dict[str, Any] = {"source": SUBWORDS, "target": SUBWORDS, "bpe_dropout": 0.3}
        config = Config(task(train=str(tmp_path / "train.tsv"), **options), settings)
        return workflow.train(config, output=tmp_path / output).path

    whole = train("whole", 3)
    part = train("part", 1)
    workflow.resume(part, ["train.epochs=3"])
    weights = [load_file(path / "last/model.safetensors") for path in (whole, part)]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
