"""The `[train]` section of a configuration."""

from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from seqloom.config import ConfigSection
from seqloom.data.length_limit import TooLong

OptimizerName = Literal["adam", "adamw", "sgd"]
PlotFormat = Literal["png", "svg", "pdf"]
PlotTheme = Literal["light", "dark"]
LoggerName = Literal["tensorboard", "mlflow", "wandb"]
DECAY = {"linear": 0.0, "step": 0.5, "plateau": 0.5}
"""The default of ``decay`` for the schedules other than cosine."""
LIMITS = ("epochs", "updates", "tokens", "minutes")
"""Settings that end a training."""
MACHINE_AND_RECORD = (
    *("device", "threads", "workers", "save_every_minutes", "keep"),
    *("plot_format", "plot_theme", "log_every", "log_to", "doctor_every"),
)
"""Settings that say where a training runs and what is kept of it, without an effect on the model."""


def _default_decay(values: dict[str, Any]) -> float:
    """The default of ``decay``, given the fields before it."""
    return DECAY.get(values.get("schedule", ""), 0.02)


class TrainConfig(ConfigSection):
    """Settings of a training run."""

    model_config = ConfigDict(allow_inf_nan=False)

    epochs: int = Field(20, ge=0, description="Passes over the training data (0: until another limit is reached).")
    updates: int = Field(0, ge=0, description="Stop after this many updates, regardless of epochs (0: no limit).")
    tokens: int = Field(
        0,
        ge=0,
        description="Stop after this many tokens, as counted by the loss, regardless of epochs (0: no limit).",
    )
    minutes: float = Field(0.0, ge=0, description="Stop after this many minutes (0: no limit).")
    batch_size: int = Field(32, ge=1, description="Sequences per update.")
    batch_tokens: int = Field(
        0, ge=0, description="Tokens per update, padding included, instead of a number of sequences (0: not used)."
    )
    max_length: int = Field(
        0,
        ge=0,
        description="Largest length of a training example in words, characters, frames or samples (0: no limit); "
        "see too_long.",
    )
    too_long: TooLong = Field(
        "skip",
        description="What is done with training examples longer than max_length: truncate keeps their beginning, split "
        "cuts them into several, skip leaves them out. Inputs to predict and evaluate are always read whole.",
    )
    bptt_steps: int = Field(
        0,
        ge=0,
        description="Truncated BPTT: time steps per segment; the state is carried over (0: whole sequences).",
    )
    accumulate: int = Field(
        1, ge=1, description="Split each batch into this many parts to save memory; the gradient is the same."
    )
    optimizer: OptimizerName = Field("adam", description="Optimizer.")
    learning_rate: float = Field(1e-3, gt=0, description="Peak learning rate.")
    schedule: Literal["constant", "cosine", "linear", "inverse_root", "step", "plateau"] = Field(
        "cosine", description="Learning rate schedule."
    )
    warmup: int = Field(0, ge=0, description="Updates of linear warm-up from zero (0: no warm-up).")
    decay: float = Field(
        default_factory=_default_decay,
        ge=0,
        le=1,
        description="cosine, linear: final fraction of the learning rate (default 0.02 and 0); step, plateau: factor "
        "of each decay (default 0.5).",
    )
    decay_after_epochs: float = Field(1, ge=0, description="step: epochs before the first decay.")
    plateau_patience: int = Field(
        1, ge=1, description="plateau: decay after this many evaluations without improvement."
    )
    momentum: float = Field(0.0, ge=0, lt=1, description="SGD momentum.")
    weight_decay: float = Field(0.0, ge=0, description="Weight decay; biases and other vectors are exempt.")
    clip_norm: float = Field(1.0, ge=0, description="Maximum norm of the gradient (0 disables clipping).")
    evaluate_every: int = Field(0, ge=0, description="Updates between evaluations (0: evaluate after each epoch).")
    doctor_every: int = Field(
        0,
        ge=0,
        description="Evaluations between two examinations by the doctor, which prints what is wrong (0: none).",
    )
    patience: int = Field(
        0, ge=0, description="Stop after this many evaluations without improvement (0 disables early stopping)."
    )
    average_checkpoints: int = Field(
        1, ge=1, description="Number of recent evaluations whose weights are averaged (1: no averaging)."
    )
    save_every_minutes: float = Field(5.0, gt=0, description="Minutes between checkpoints within an epoch.")
    keep: Literal["all", "best"] = Field(
        "all",
        description="What is kept of a finished run; best: only the best weights, without what resuming needs.",
    )
    plot_format: PlotFormat = Field("png", description="Format of the plots of a run; explain uses it, too.")
    plot_theme: PlotTheme = Field("light", description="Background of the plots of a run; explain uses it, too.")
    log_every: int = Field(50, ge=1, description="Updates between log entries.")
    log_to: LoggerName | tuple[LoggerName, ...] = Field(
        (), description='Programs that show the training: "tensorboard", "mlflow", "wandb", or a list of them.'
    )
    seed: int = Field(1, ge=0, description="Random seed; the same seed gives the same model.")
    workers: int = Field(0, ge=0, description="Threads that prepare batches in advance (0: none).")
    precision: Literal["float32", "bfloat16"] = Field(
        "float32",
        description="Precision of the matrix products of training. bfloat16 is faster for layers from a width of about "
        "200 on; it needs a processor with AVX512_BF16 (seqloom info). Weights are float32 in either case.",
    )
    threads: int = Field(0, ge=0, description="Threads for computation (0: one per core that may be used).")
    shuffle_buffer: int = Field(
        1_000_000, ge=1, description="Examples to keep in memory for shuffling; a larger file is streamed."
    )
    device: str = Field("cpu", description="Device to train on, such as cpu or cuda.")

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        if not (self.epochs or self.updates or self.tokens or self.minutes):
            raise ValueError("epochs is 0 and there is no other limit: set updates, tokens or minutes")
        return self

    @property
    def limit(self) -> Literal["epochs", "updates", "tokens", "minutes"]:
        """The key that is expected to end the training: another limit is set to end it before its epochs do."""
        return "minutes" if self.minutes else "tokens" if self.tokens else "updates" if self.updates else "epochs"

    @property
    def loggers(self) -> tuple[LoggerName, ...]:
        """``log_to`` as a tuple."""
        return self.log_to if isinstance(self.log_to, tuple) else (self.log_to,)
