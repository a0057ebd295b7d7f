"""Weights & Biases: offline in the run folder, or as WANDB_MODE says; ``wandb sync`` uploads an offline log."""

import os
import secrets
from collections.abc import Mapping

from seqloom.loggers.logger import Logger, flat_config, store_identifier, stored_identifier
from seqloom.run import Run


class WandbLogger(Logger):
    """Writes metrics, the configuration and, as summary, the metrics of the best checkpoint."""

    def __init__(self, run: Run, *, update: int) -> None:  # noqa: ARG002
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # nothing leaves the machine unasked
        import wandb

        identifier = stored_identifier(run, "wandb")
        if not identifier:
            identifier = secrets.token_hex(4)
            store_identifier(run, "wandb", identifier)
        mode = os.environ.get("WANDB_MODE", "offline")
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "seqloom"),
            id=identifier,
            name=run.path.name,
            dir=run.path,
            config=flat_config(run),
            mode="offline" if mode == "offline" else "disabled" if mode == "disabled" else "online",
            resume="allow" if mode == "online" else None,
            settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
        )

    def log(self, values: Mapping[str, float], *, update: int) -> None:
        self.run.log({"update": update, **values}, step=update)

    def finish(self, best: Mapping[str, float]) -> None:
        self.run.summary.update({f"best/{name}": value for name, value in best.items()})

    def close(self) -> None:
        self.run.finish()
