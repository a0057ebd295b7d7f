"""Names that people bring from elsewhere are pointed to the key, the task or the override that they mean."""

import pytest
from pydantic import Field

from seqloom.config import ConfigError, ConfigSection, parse
from seqloom.config.hints import SYNONYMS, nearest, suggestions, synonym_keys
from seqloom.config.schema import Sections, all_keys
from seqloom.config.toml import dotted
from seqloom.tasks import find, names
from seqloom.training.config import TrainConfig

TASKS = ["caption", "classify", "embed", "forecast", "language_model", "tag", "transcribe", "translate"]


class Train(ConfigSection):
    """Training keys as they are called in the field."""

    learning_rate: float = 0.1
    batch_size: int = 1
    epochs: int = 1
    updates: int = 1
    bptt_steps: int = 0
    average_checkpoints: int = 1
    clip_norm: float = 1.0
    plateau_patience: int = 1
    decay_after_epochs: int = 1
    shuffle_buffer: int = 1
    optimizer: str = "adam"
    device: str = "cpu"
    seed: int = 1


class Layers(ConfigSection):
    hidden_size: int = 1
    layers: int = 1
    dropout: float = 0.0


class Vocabulary(ConfigSection):
    vocab_size: int = 0
    min_count: int = 1
    lowercase: bool = Field(default=False)


class Search(ConfigSection):
    size: int = 5
    nbest: int = 1


class Model(ConfigSection):
    model: str = "neural"
    metric: str = ""
    embedding_size: int = 1
    tie_embeddings: bool = Field(default=True)
    label_smoothing: float = 0.0
    max_length: int = 1
    text: Vocabulary = Vocabulary()
    prenet: Layers = Layers()
    characters: Layers = Layers()
    encoder: Layers = Layers()
    pretrained: Layers = Layers()
    augment: Layers = Layers()
    lm: Layers = Layers()
    search: Search = Search()


KEYS = all_keys({"task": Model, "train": Train})


@pytest.mark.parametrize(
    ("written", "key"),
    [
        *[(f"train.{word}", "train.learning_rate") for word in ("lr", "LR", "rate", "learning-rate")],
        *[(f"train.{word}", "train.batch_size") for word in ("batch", "bsz", "mini_batch_size")],
        *[(f"train.{word}", "train.epochs") for word in ("max_epochs", "num_epochs", "n_epochs", "epoch")],
        *[(f"train.{word}", "train.updates") for word in ("max_steps", "max_updates", "iterations")],
        *[(f"train.{word}", "train.clip_norm") for word in ("clip", "grad_clip", "clip_grad_norm", "max_grad_norm")],
        ("train.optim", "train.optimizer"),
        ("train.optimiser", "train.optimizer"),
        ("train.steps", "train.bptt_steps"),
        ("train.average", "train.average_checkpoints"),
        ("train.decay_wait", "train.plateau_patience"),
        ("train.decay_after", "train.decay_after_epochs"),
        ("train.pool", "train.shuffle_buffer"),
        ("train.lerning_rate", "train.learning_rate"),
        *[(f"task.encoder.{word}", "task.encoder.layers") for word in ("n_layers", "num_layers", "n_layer")],
        *[
            (f"task.encoder.{word}", "task.encoder.hidden_size")
            for word in ("hidden", "hidden_dim", "units", "num_units", "d_model")
        ],
        ("task.encoder.dropout_p", "task.encoder.dropout"),
        *[
            (f"task.{word}", "task.embedding_size")
            for word in ("embedding", "embed_dim", "embedding_dim", "emb_dim", "n_embd")
        ],
        *[(f"task.{word}", "task.tie_embeddings") for word in ("tied", "weight_tying", "tie_weights")],
        ("task.smoothing", "task.label_smoothing"),
        ("task.kind", "task.model"),
        ("task.best_by", "task.metric"),
        ("task.longest", "task.max_length"),
        ("task.front", "task.prenet"),
        ("task.vectors", "task.pretrained"),
        ("task.change", "task.augment"),
        ("task.language", "task.lm"),
        ("task.text.size", "task.text.vocab_size"),
        ("task.text.minimum", "task.text.min_count"),
        ("task.text.min_freq", "task.text.min_count"),
        ("task.text.lower", "task.text.lowercase"),
        *[(f"task.search.{word}", "task.search.size") for word in ("beam_size", "num_beams", "beam_width")],
        ("task.search.best", "task.search.nbest"),
        # in the wrong section, or in none
        ("task.learning_rate", "train.learning_rate"),
        ("task.lr", "train.learning_rate"),
        ("learning_rate", "train.learning_rate"),
        ("lr", "train.learning_rate"),
        ("batch_size", "train.batch_size"),
        ("beam_size", "task.search.size"),
        ("train.label_smoothing", "task.label_smoothing"),
        ("train.vocab_size", "task.text.vocab_size"),
        ("train.labelsmoothing", "task.label_smoothing"),
        ("max_epochs", "train.epochs"),
        ("--batch-size", "train.batch_size"),
    ],
)
def test_a_foreign_or_earlier_name_is_pointed_to_its_key(written: str, key: str) -> None:
    assert [dotted(path) for path in suggestions(tuple(written.split(".")), KEYS)] == [key]


def test_several_keys_of_a_name_come_with_the_main_layers_first() -> None:
    keys = [dotted(key) for key in synonym_keys(("task", "hidden_dim"), KEYS)]
    assert keys == ["task.encoder.hidden_size", "task.prenet.hidden_size", "task.characters.hidden_size"]


def test_a_table_stands_for_a_table_if_there_is_one() -> None:
    assert synonym_keys(("model",), KEYS, table=True) == [("task",)]
    assert synonym_keys(("model",), KEYS) == [("task", "model")]
    assert synonym_keys(("training",), KEYS, table=True) == [("train",)]
    assert synonym_keys(("encoder",), KEYS, table=True) == [("task", "encoder")]
    assert synonym_keys(("optimizer",), KEYS, table=True) == [("train", "optimizer")]


def test_a_word_without_a_meaning_has_no_hint() -> None:
    assert suggestions(("train", "zebra"), KEYS) == []
    assert nearest("zebra", TASKS) == ""


@pytest.mark.parametrize(
    ("word", "task"),
    [
        ("lm", "language_model"),
        *[(word, "translate") for word in ("seq2seq", "nmt", "mt", "translation")],
        *[(word, "tag") for word in ("ner", "pos", "tagging", "NER")],
        *[(word, "transcribe") for word in ("asr", "ctc", "stt", "ocr")],
        ("word2vec", "embed"),
        *[(word, "classify") for word in ("classification", "sentiment")],
        ("captioning", "caption"),
        *[(word, "forecast") for word in ("forecasting", "time_series", "time-series")],
        ("Tag", "tag"),
        ("tagg", "tag"),
        ("langage_model", "language_model"),
    ],
)
def test_a_foreign_name_of_a_task(word: str, task: str) -> None:
    assert nearest(word, TASKS) == task


def test_every_synonym_stands_for_another_name_that_exists() -> None:
    sections: list[Sections] = [{"train": TrainConfig}, *({"task": find(name)} for name in names())]
    keys = [tuple(map(str, key)) for section in sections for key in all_keys(section)]
    known = {".".join(key[start:]) for key in keys for start in range(len(key))} | set(names())
    assert {name for candidates in SYNONYMS.values() for name in candidates} - known == set()
    assert [word for word, candidates in SYNONYMS.items() if candidates == [word]] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[train]\n\nlr = 0.1", 'a.toml:3: unknown key "train.lr"; did you mean "train.learning_rate"?'),
        ("[task]\nlr = 0.1", 'a.toml:2: unknown key "task.lr"; did you mean "train.learning_rate"?'),
        ("lr = 0.1", 'a.toml:1: unknown key "lr"; did you mean "train.learning_rate"?'),
        ("[task]\n[task.language]", "a.toml:2: unknown table [task.language]; did you mean [task.lm]?"),
        ("[task]\nlanguage = 'x'", 'a.toml:2: unknown key "task.language"; did you mean [task.lm]?'),
    ],
)
def test_errors_contain_hints_with_file_and_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(text, "a.toml").build(task=Model, train=Train)
    assert str(error.value) == message
