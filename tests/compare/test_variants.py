"""Variants: what they change, what their budget is, and what is wrong with them."""

from pathlib import Path

import pytest

from seqloom.compare.variants import Budget, variants
from seqloom.config import ConfigError

FREE = Budget()


def test_changes_a_file_and_the_configuration_as_it_stands(config: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text(config.read_text().replace("hidden = 8", "hidden = 9"))
    changes = 'task.decoder.cell=["gru","lstm"],task.decoder.layers=2,train.learning_rate=0.5'
    found = variants(config, [changes, "base", str(other)], budget=FREE, seeds=2)
    assert [variant.name for variant in found] == [changes, "base", str(other)]
    assert [[each.train.seed for each in variant.configs] for variant in found] == [[1, 2]] * 3
    mixed, base, whole = (variant.configs[0] for variant in found)
    assert (mixed.task.decoder.cell, mixed.task.decoder.layers, mixed.train.rate) == (("gru", "lstm"), 2, 0.5)  # type: ignore[attr-defined]
    assert (base.task.decoder.hidden, whole.task.decoder.hidden) == (8, 9)  # type: ignore[attr-defined]
    assert len({variant.folder for variant in found}) == 3
    assert all(len(variant.folder) <= 80 and "/" not in variant.folder for variant in found)


def test_whole_configurations_are_compared_with_the_first(config: Path, tmp_path: Path) -> None:
    other = tmp_path / "lm,toml.toml"
    other.write_text(config.read_text())
    found = variants(config, [str(other)], budget=FREE, seeds=1)
    assert [variant.name for variant in found] == [str(config), str(other)]


def test_names_that_look_alike_have_folders_of_their_own(config: Path) -> None:
    names = ["train.learning_rate=1e-2", "train.learning_rate= 1e-2", "train.learning_rate=1e-2,train.clip_norm=1"]
    assert [each.folder for each in variants(config, names, budget=FREE, seeds=1)] == [
        "train.learning_rate=1e-2",
        "train.learning_rate=_1e-2",
        "train.learning_rate=1e-2_train.clip=1",
    ]
    names = ['task.text.unit="words"', "task.text.unit='words'"]
    first, second = (each.folder for each in variants(config, names, budget=FREE, seeds=1))
    assert second == f"{first}-2"
    names = [
        f"task.decoder.cell=elman,task.embedding_size={size},train.learning_rate=0.001,train.warmup=100"
        for size in (8, 88)
    ]
    names += [f"{name},train.clip_norm=0.{'5' * 40}" for name in names]
    found = [each.folder for each in variants(config, names, budget=FREE, seeds=1)]
    assert all(each.startswith("task.decoder.cell=elman_task.embedding=8") for each in found)
    assert (len(set(found)), max(map(len, found))) == (4, 80)


@pytest.mark.parametrize(
    ("budget", "wanted"), [(FREE, (20, 3, 0, 0.0)), (Budget(tokens=99), (0, 0, 99, 0.0)), (Budget(2.5), (0, 0, 0, 2.5))]
)
def test_a_budget_replaces_every_other_end(budget: Budget, wanted: tuple[float, ...], config: Path) -> None:
    for variant in variants(config, ["base", "train.minutes=0"], budget=budget, seeds=1):
        train = variant.configs[0].train
        assert (train.epochs, train.updates, train.tokens, train.minutes) == wanted


def test_what_is_wrong_is_said_at_once(config: Path, tmp_path: Path) -> None:
    def wrong(*names: str, budget: Budget = FREE) -> str:
        with pytest.raises(ValueError, match=r".") as caught:
            variants(config, names, budget=budget, seeds=1)
        return str(caught.value)

    assert "did you mean" in wrong("base", "task.ordr=2")
    assert wrong("base", "gru") == "'gru' is no variant, wanted section.key=value, a .toml file, or base"
    assert "given twice" in wrong("base", "base")
    assert "nothing to compare it with" in wrong("base")
    assert "cannot read the configuration" in wrong("base", str(tmp_path / "none.toml"))
    assert "wanted one of them" in wrong("base", "task.model=ngram", budget=Budget(1.0, 1))
    (tmp_path / "tag.toml").write_text('[task]\nname = "tag"\ntrain = "x"\n')
    assert wrong(str(tmp_path / "tag.toml")) == "the variants have several tasks, wanted one: language_model, tag"
    with pytest.raises(ConfigError):
        variants(config, ["base", "task.decoder.cell=lstn"], budget=FREE, seeds=1)
