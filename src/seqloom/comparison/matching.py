"""Variants of equal size: the width of a variant is changed until it has as many parameters as the first one."""

import inspect
from typing import NamedTuple

from seqloom.comparison.variants import Variant
from seqloom.layers.layer import count_parameters
from seqloom.layers.transformer.block import TransformerBlock
from seqloom.models.encoder import TRANSFORMER, RecurrenceConfig, is_cell_class
from seqloom.run_config import Config
from seqloom.tasks.task import Task
from seqloom.training_data import FILES_ONLY, Sources, data_readers

MAX_WIDTH = 1 << 16  # of a layer
DEFAULT_HEADS: int = inspect.signature(TransformerBlock).parameters["heads"].default
TOLERANCE = 0.05  # share of the parameters by which a match may differ without a warning


class _Fitted(NamedTuple):
    """A fitted task, and the width of each of its recurrent sections."""

    task: Task
    widths: dict[str, int]  # hidden_size by field

    def with_width(self, width: int) -> Task:
        """The task with another width of its widest section; the others keep their proportion to it."""
        widest = max(self.widths.values())
        changes = {}
        for field, before in self.widths.items():
            section: RecurrenceConfig = getattr(self.task, field)
            step = _width_step(section)
            size = max(round(before * width / widest / step), 1) * step
            changes[field] = section.model_copy(update={"hidden_size": size})
        return self.task.model_copy(update=changes)

    def parameters(self, width: int) -> int:
        return count_parameters(self.with_width(width).build_model())


def match_parameters(variants: list[Variant], sources: Sources = FILES_ONLY) -> list[Variant]:
    """The variants with widths that give each as many parameters as the first one; notes say what was changed."""
    first = _fit(variants[0].configs[0], sources)
    target = count_parameters(first.task.build_model())
    return [variants[0], *(_match(variant, variants[0].name, target, sources) for variant in variants[1:])]


def _match(variant: Variant, reference: str, target: int, sources: Sources) -> Variant:
    fitted = _fit(variant.configs[0], sources)
    if not fitted.widths:
        return variant._replace(note="has no hidden_size by which its parameters could be matched")
    width = _nearest_width(fitted, target)
    task = fitted.with_width(width)
    changed = {field: getattr(task, field).hidden_size for field in fitted.widths}
    if changed == fitted.widths:
        return variant
    configs = tuple(
        config._replace(
            task=config.task.model_copy(
                update={
                    field: getattr(config.task, field).model_copy(update={"hidden_size": size})
                    for field, size in changed.items()
                }
            )
        )
        for config in variant.configs
    )
    parameters = fitted.parameters(width)
    sizes = " and ".join(f"task.{field}.hidden_size={size}" for field, size in changed.items())
    before = " and ".join(str(size) for size in fitted.widths.values())
    note = f"{sizes} instead of {before}: {parameters:,} parameters, {reference} has {target:,}"
    if abs(parameters - target) > TOLERANCE * target:
        note += "; no width comes closer"
    return variant._replace(configs=configs, note=note)


def _fit(config: Config, sources: Sources) -> _Fitted:
    task = config.task.fit(data_readers(config, sources).train())
    names = ("encoder", "decoder") if task.custom_layer_field else ()  # otherwise the model is not recurrent
    sections = {name: getattr(task, name, None) for name in names}
    widths = {
        name: section.hidden_size
        for name, section in sections.items()
        if isinstance(section, RecurrenceConfig) and section.layers and _has_width(section)
    }
    return _Fitted(task, widths)


def _has_width(section: RecurrenceConfig) -> bool:
    """Whether the layers depend on hidden_size: a custom layer that is not a cell does not."""
    return section.layer_factory is None or is_cell_class(section.layer_factory)


def _nearest_width(fitted: _Fitted, target: int) -> int:
    """The width whose number of parameters is nearest to the target, by bisection."""
    low, high = 1, max(fitted.widths.values())
    while high < MAX_WIDTH and fitted.parameters(high) < target:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if fitted.parameters(middle) < target:
            low = middle
        else:
            high = middle
    return min((low, high), key=lambda width: abs(fitted.parameters(width) - target))


def _width_step(section: RecurrenceConfig) -> int:
    """What the width has to be a multiple of: the heads of a Transformer have an even width."""
    return 2 * int(section.options.get("heads", DEFAULT_HEADS)) if TRANSFORMER in section.kinds else 1
