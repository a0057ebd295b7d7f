"""``seqloom.compare``: variants of a configuration, or of a task with data in memory."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqloom.comparison import compare as comparison
from seqloom.comparison.compare import RunTrial
from seqloom.comparison.result import Comparison
from seqloom.comparison.variants import VariantLike
from seqloom.interactive.train import configure
from seqloom.run_config import Config
from seqloom.training_data import FILES_ONLY


def compare(
    config: str | Path | Config | None = None,  # TOML file; None: a task and its data
    variants: Sequence[VariantLike] = (),
    overrides: Sequence[str] = (),  # section.key=value, for all variants
    *,
    task: str = "",  # the name of a task, instead of a configuration
    data: Any = None,  # as for ``seqloom.train``: a path, a data frame, a dict of columns, a list, or an array
    dev: Any = None,  # development data like ``data``; None: hold out task.dev_fraction of the training data
    minutes: float = 0.0,  # training budget of each run; 0: not limited
    tokens: int = 0,  # training budget of each run, instead of minutes; 0: not limited
    seeds: int = 1,
    folds: int = 0,  # cross-validation on the training data; 0: none
    match_parameters: bool = False,  # change the width of each variant so that all are as large as the first one
    output: str | Path | None = None,  # folder of the runs; None: runs/compare, or runs/compare-2 and so on
    report: comparison.Report = comparison.print_to_stderr,  # receives a line before each training
    run_trial: RunTrial | None = None,  # None: train in a process of its own, or in this one if data are in memory
    **settings: Any,
) -> Comparison:
    """Train each variant with each seed and compare it with the first one; everything is written to the output folder.

    A variant is a text ("base", "key=value,key=value", "layer=module:name", or the path of a TOML file), a mapping of
    its changes, or a custom layer or cell. Finished runs in the output folder are not repeated, and interrupted ones
    are resumed. ``settings`` are keys of the task or of training, and names of columns, as for ``seqloom.train``.
    """
    options: dict[str, Any] = {"minutes": minutes, "tokens": tokens, "seeds": seeds, "folds": folds}
    options |= {"match_parameters": match_parameters, "output": output, "report": report, "run_trial": run_trial}
    if not task and data is None and dev is None and not settings and not isinstance(config, Mapping):
        if config is None:
            raise ValueError("nothing to compare: give the path of a configuration, or task and data")
        return comparison.compare(config, variants, overrides, sources=FILES_ONLY, **options)
    if isinstance(config, Config):
        raise TypeError("a Config is complete: give the path of a TOML file to change it by other arguments")
    document, sources = configure(config, (), task=task, data=data, dev=dev, settings=settings)
    return comparison.compare(document, variants, overrides, sources=sources, **options)
