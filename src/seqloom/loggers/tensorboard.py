"""TensorBoard: an event file in the run folder, so that ``tensorboard --logdir runs`` shows every run by its name."""

from collections.abc import Mapping

from seqloom.loggers.logger import Logger, flat_config
from seqloom.run import Run


class TensorBoardLogger(Logger):
    """Writes scalars, the configuration as text and, at the end, hyperparameters with the metrics they led to."""

    def __init__(self, run: Run, *, update: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # Events that a killed process has written after its last checkpoint are hidden: they are logged once more.
        self.writer = SummaryWriter(run.path, purge_step=update + 1 if update else None)
        self.config = flat_config(run)
        if not update:
            indented = "".join(f"    {line}\n" for line in run.config.splitlines())
            self.writer.add_text("config", indented)

    def log(self, values: Mapping[str, float], *, update: int) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, update)

    def finish(self, best: Mapping[str, float]) -> None:
        from torch.utils.tensorboard.summary import hparams

        metrics = {f"best/{name}": value for name, value in best.items()}
        for summary in hparams(self.config, metrics):
            self.writer.file_writer.add_summary(summary)  # type: ignore[attr-defined]
        for name, value in metrics.items():
            self.writer.add_scalar(name, value)

    def close(self) -> None:
        self.writer.close()
