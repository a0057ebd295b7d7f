"""Samplers and pruners of Optuna by name; each trial is sampled with a seed of its own."""

import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, NopPruner, SuccessiveHalvingPruner
from optuna.samplers import BaseSampler, CmaEsSampler, GPSampler, QMCSampler, RandomSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from seqloom.config.toml import literal
from seqloom.tuning.space import Choice, Domain, Space, SweepConfig

CONTINUES = "continues"
"""The attribute of a trial that continues an interrupted one: its number."""


def distribution(domain: Domain) -> BaseDistribution:
    """A domain as Optuna describes it."""
    if isinstance(domain, Choice):
        return CategoricalDistribution([encode(value) for value in domain.values])
    if domain.integer:
        return IntDistribution(int(domain.low), int(domain.high), log=domain.log, step=int(domain.step or 1))
    return FloatDistribution(domain.low, domain.high, log=domain.log, step=domain.step)


def encode(value: Any) -> Any:
    """A value as Optuna stores it: lists and tables as TOML."""
    return literal(value) if isinstance(value, list | dict) else value


def decode(domain: Domain, value: Any) -> Any:
    """The value of a domain that Optuna has stored."""
    if isinstance(domain, Choice):
        return next(choice for choice in domain.values if literal(encode(choice)) == literal(value))
    return value


def make_pruner(config: SweepConfig) -> BasePruner:
    """The pruner that a configuration names."""
    match config.pruner:
        case "median":
            return MedianPruner(config.prune_after_trials, config.prune_after_evaluations)
        case "successive_halving":
            return SuccessiveHalvingPruner(min_resource=config.prune_after_evaluations)
        case "hyperband":
            return HyperbandPruner(min_resource=config.prune_after_evaluations)
        case _:
            return NopPruner()


def make_sampler(config: SweepConfig, seed: int) -> BaseSampler:
    """The sampler that a configuration names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        match config.sampler:
            case "gp":
                return GPSampler(seed=seed, warn_independent_sampling=False)
            case "cmaes":
                return CmaEsSampler(seed=seed, warn_independent_sampling=False)
            case "qmc":
                return QMCSampler(seed=config.seed, warn_independent_sampling=False)
            case "tpe":
                return TPESampler(seed=seed)
            case _:  # the values of a grid are queued, and what comes after them is random
                return RandomSampler(seed)


class SeededSampler(BaseSampler):
    """A sampler with a new seed for each trial, so that processes that share a sweep do not draw the same values.

    A trial depends on its place in the sweep and on the trials before it, not on interruptions in between.
    """

    def __init__(self, config: SweepConfig) -> None:
        self.config = config
        self.number = -1  # of the trial that ``sampler`` belongs to
        self.sampler = make_sampler(config, config.seed)

    def _of(self, study: Study, trial: FrozenTrial) -> BaseSampler:
        if trial.number != self.number:
            earlier = study.get_trials(deepcopy=False)[: trial.number]
            place = trial.number - sum(CONTINUES in other.user_attrs for other in earlier)
            self.sampler = make_sampler(self.config, (1_000_003 * self.config.seed + place) % 2**32)
            self.number = trial.number
        return self.sampler

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._of(study, trial).infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._of(study, trial).sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._of(study, trial).sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        self._of(study, trial).before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Any) -> None:
        self._of(study, trial).after_trial(study, trial, state, values)


def grid(space: Space) -> Iterator[dict[str, Any]]:
    """Every combination of the values of a search space."""
    for values in product(*(domain.grid() for domain in space.values())):
        yield {name: encode(value) for name, value in zip(space, values, strict=True)}
