"""Defaults of the ``[train]`` section that depend on how much data there are."""

from typing import Any

from seqloom.config import Document

SMALLEST_BATCH = 4
UPDATES_PER_EPOCH = 25
"""A batch size is halved until an epoch has about as many updates."""
EPOCHS = (10, 100)
"""The fewest and the most epochs for data of ordinary size."""
MAX_UPDATES = 20_000
"""Updates beyond which large data get fewer epochs, but at least ``FEWEST_EPOCHS``."""
FEWEST_EPOCHS = 3
EVALUATIONS = 25
"""Evaluations of a training run with many short epochs."""
WARMUP = 0.05
"""Share of the updates that are warm-up, of at most ``MAX_WARMUP`` updates; twice as many for Transformers."""
MAX_WARMUP = 200

DEPENDS_ON_SIZE: dict[str, str] = {
    "train.epochs": "10 to 100, so that small data get about 2,000 updates; fewer for millions of examples",
    "train.batch_size": "smaller if there are few examples, so that an epoch has at least 25 updates",
    "train.warmup": "5 % of the updates, at most 200; twice as many for Transformers",
    "train.evaluate_every": "after each epoch; with more than 25 epochs, 25 evaluations in all",
}
"""How these defaults depend on the data, in words."""


def training_defaults(
    document: Document,
    units: float | None,  # what a batch is cut from: examples, or steps of concatenated text; None: not known
    *,
    batch_size: int = 32,
    updates: int = 2000,  # wanted for small data
    learning_rate: float = 0.002,
    layers: str = "task.encoder",  # the table of the main recurrent or Transformer layers
) -> dict[str, Any]:
    """Batch size, epochs, warm-up and evaluations by ``section.key``, consistent with what the document sets."""
    given = {name: _number(document, f"train.{name}") for name in ("batch_size", "epochs", "updates")}
    size = batch_size
    while units and size > SMALLEST_BATCH and units < UPDATES_PER_EPOCH * size:
        size //= 2
    transformer = "transformer" in (document.get(f"{layers}.cell") or ())  # a name, or a list of names
    if transformer:
        learning_rate /= 2
    values: dict[str, Any] = {"train.batch_size": size, "train.learning_rate": learning_rate}
    if document.get("train.schedule") == "plateau":
        values["train.patience"] = 8
    if not units:
        return values | {"train.warmup": MAX_WARMUP // 2}
    per_epoch = max(units / (given["batch_size"] or size), 1.0)
    fewest = min(max(MAX_UPDATES / per_epoch, FEWEST_EPOCHS), EPOCHS[0])
    epochs = round(min(max(updates / per_epoch, fewest), EPOCHS[1]))
    total = given["updates"] or per_epoch * (given["epochs"] or epochs)
    values |= {"train.epochs": epochs, "train.warmup": min(round(WARMUP * total), MAX_WARMUP) * (1 + transformer)}
    if total > EVALUATIONS * per_epoch:
        values["train.evaluate_every"] = max(round(total / EVALUATIONS), 1)
    return values


def _number(document: Document, name: str) -> float:
    """A positive number that the document sets, or 0."""
    value = document.get(name)
    return value if isinstance(value, int | float) and value > 0 else 0
