"""Variants: their changes, their budget, their folders, and error messages."""

from pathlib import Path

import pytest

from seqloom.comparison.variants import Budget, parse_variants, settings_for_all
from seqloom.config import ConfigError

FREE = Budget()


def test_a_variant_is_a_list_of_changes_a_file_or_base(config: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text(config.read_text().replace("hidden_size = 8", "hidden_size = 9"))
    changes = 'task.decoder.cell=["gru","lstm"],task.decoder.layers=2,train.learning_rate=0.5'
    result = parse_variants(config, [changes, "base", str(other)], budget=FREE, seeds=2)
    assert [variant.name for variant in result] == [changes, "base", str(other)]
    assert [[config.train.seed for config in variant.configs] for variant in result] == [[1, 2]] * 3
    mixed, base, whole = (variant.configs[0] for variant in result)
    assert (mixed.task.decoder.cell, mixed.task.decoder.layers, mixed.train.learning_rate) == (("gru", "lstm"), 2, 0.5)  # type: ignore[attr-defined]
    assert (base.task.decoder.hidden_size, whole.task.decoder.hidden_size) == (8, 9)  # type: ignore[attr-defined]
    assert len({variant.folder for variant in result}) == 3
    assert all(len(variant.folder) <= 80 and "/" not in variant.folder for variant in result)


def test_a_variant_that_looks_like_a_setting_for_all_gets_a_hint(config: Path) -> None:
    def hints(*names: str) -> list[str]:
        return settings_for_all(parse_variants(config, names, budget=FREE, seeds=2))

    changes = "train.epochs=1 is a variant; to set it for all variants: --override train.epochs=1"
    both = "train.threads=1,train.log_to=['wandb']"
    quoted = f"{both} is a variant; to set it for all variants: --override train.threads=1 --override "
    assert hints("base", "task.decoder.cell=gru", "train.epochs=1", both) == [
        changes,
        quoted + """'train.log_to=['"'"'wandb'"'"']'""",
    ]
    assert not hints("base", "train.learning_rate=0.1", "train.epochs=1,task.decoder.cell=gru")
    assert not hints("train.epochs=1", "train.epochs=2")  # they are compared


def test_whole_configurations_are_compared_with_the_first(config: Path, tmp_path: Path) -> None:
    other = tmp_path / "lm,toml.toml"
    other.write_text(config.read_text())
    result = parse_variants(config, [str(other)], budget=FREE, seeds=1)
    assert [variant.name for variant in result] == [str(config), str(other)]


def test_similar_names_get_different_folders(config: Path) -> None:
    names = ["train.learning_rate=1e-2", "train.learning_rate= 1e-2", "train.learning_rate=1e-2,train.clip_norm=1"]
    assert [each.folder for each in parse_variants(config, names, budget=FREE, seeds=1)] == [
        "train.learning_rate=1e-2",
        "train.learning_rate=_1e-2",
        "train.learning_rate=1e-2_train.clip_norm=1",
    ]
    names = ['task.text.unit="words"', "task.text.unit='words'"]
    first, second = (each.folder for each in parse_variants(config, names, budget=FREE, seeds=1))
    assert second == f"{first}-2"
    names = [f"task.decoder.cell=elman,task.embedding_size={size},train.warmup=100" for size in (8, 88)]
    names += [f"{name},train.clip_norm=0.{'5' * 40}" for name in names]
    result = [each.folder for each in parse_variants(config, names, budget=FREE, seeds=1)]
    assert all(each.startswith("task.decoder.cell=elman_task.embedding_size=8") for each in result)
    assert (len(set(result)), max(map(len, result))) == (4, 80)


@pytest.mark.parametrize(
    ("budget", "expected"),
    [(FREE, (9, 3, 0, 0.0)), (Budget(tokens=99), (0, 0, 99, 0.0)), (Budget(2.5), (0, 0, 0, 2.5))],
)
def test_a_budget_replaces_all_other_limits(budget: Budget, expected: tuple[float, ...], config: Path) -> None:
    for variant in parse_variants(config, ["base", "train.minutes=0"], budget=budget, seeds=1):
        train = variant.configs[0].train
        assert (train.epochs, train.updates, train.tokens, train.minutes) == expected


def test_invalid_variants_are_refused(config: Path, tmp_path: Path) -> None:
    def message(*names: str, budget: Budget = FREE) -> str:
        with pytest.raises(ValueError, match=r".") as caught:
            parse_variants(config, names, budget=budget, seeds=1)
        return str(caught.value)

    assert "did you mean" in message("base", "task.ordr=2")
    expected = "expected section.key=value, a .toml file, layer=module:name, or base"
    assert message("base", "gru") == f"'gru' is not a variant, {expected}"
    assert (
        message("base", "layer=os:path,layer=os:path")
        == "the variant layer=os:path,layer=os:path has 2 layers, expected one"
    )
    assert "given twice" in message("base", "base")
    only = "is the only variant: add {} to compare it with, or set --seeds or --folds"
    assert message("base") == f"base {only.format('another variant')}"
    assert message() == f"{config} {only.format('another variant')}"
    assert message("train.clip_norm=1") == f"train.clip_norm=1 {only.format('base or another variant')}"
    assert "none.toml: no such file" in message("base", str(tmp_path / "none.toml"))
    assert "exclude each other" in message("base", "task.model=ngram", budget=Budget(1.0, 1))
    (tmp_path / "tag.toml").write_text('[task]\nname = "tag"\ntrain = "x"\n')
    assert message(str(tmp_path / "tag.toml")) == "all variants must have the same task, found language_model, tag"
    with pytest.raises(ConfigError):
        parse_variants(config, ["base", "task.decoder.cell=lstn"], budget=FREE, seeds=1)
