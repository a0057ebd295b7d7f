"""Training in bfloat16, compared with our float32 and with plain PyTorch programs under autocast."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from benchmarks.measure import Result, compare_rates, interleave
from benchmarks.peers import seqloom_models, torch_nn
from benchmarks.peers.translation import random_batches, updates
from benchmarks.training import Case, language_model, our_updates, tagger
from benchmarks.translate import ARCHITECTURES, SIZES
from seqloom.layers.bfloat16_products import Bfloat16Products, unsupported
from seqloom.run_config import Config

FLOAT, AUTOCAST = "our float32", "plain PyTorch, autocast to bfloat16"
GOALS = {FLOAT: 1.5, AUTOCAST: 1.3}


def measure(*, quick: bool) -> Iterator[Result]:
    """Four trainings, with one thread and with all."""
    if reason := unsupported():
        raise SystemExit(f"bfloat16: {reason}")
    for threads in [1] if quick else sorted({1, torch.get_num_threads()}):
        torch.set_num_threads(threads)
        yield from task_training(language_model(), threads, repetitions=3 if quick else 11)
        yield from task_training(tagger(), threads, repetitions=15 if quick else 101)
        for architecture in reversed(ARCHITECTURES):
            yield from translation(architecture, threads, repetitions=3 if quick else 5)


def task_training(case: Case, threads: int, *, repetitions: int) -> Iterator[Result]:
    """A task, trained as ``seqloom train`` does it."""
    config = Config(case.task, case.settings.model_copy(update={"precision": "bfloat16"}))
    in_float = our_updates(case.task, case.examples, case.settings)
    loops: dict[str, Iterator[Any]] = {
        "ours": our_updates(case.task, case.examples, case.settings, config.loss_function()).training,
        FLOAT: in_float.training,
        AUTOCAST: case.torch_updates(in_float.batches, autocast=True),
    }
    yield from _compare(case.name, loops, threads, items=case.items, unit=case.unit, repetitions=repetitions)


def translation(architecture: str, threads: int, *, repetitions: int) -> Iterator[Result]:
    """The models of the translation benchmark: batches of 2,048 target tokens, Adam."""
    batches = random_batches(SIZES, count=2)
    products = Bfloat16Products()
    autocast = partial(torch.autocast, "cpu", torch.bfloat16)
    models = {}
    for name, library in (("ours", seqloom_models), (FLOAT, seqloom_models), (AUTOCAST, torch_nn)):
        torch.manual_seed(1)
        models[name] = getattr(library, architecture)(SIZES)
    loops = {
        "ours": updates(models["ours"], batches, precision=lambda: products),
        FLOAT: updates(models[FLOAT], batches),
        AUTOCAST: updates(models[AUTOCAST], batches, precision=autocast),
    }
    case = f"{ARCHITECTURES[architecture]}: training"
    items = sum(batch.tokens for batch in batches)
    yield from _compare(case, loops, threads, items=items, unit="tokens/s", repetitions=repetitions)


def _compare(
    case: str, loops: dict[str, Iterator[Any]], threads: int, *, items: int, unit: str, repetitions: int
) -> Iterator[Result]:
    timings = interleave({name: partial(next, loop) for name, loop in loops.items()}, repetitions=repetitions)
    for peer, goal in GOALS.items():
        yield compare_rates(
            f"{case} in bfloat16",
            threads,
            items=items,
            unit=unit,
            ours=timings["ours"],
            peer=timings[peer],
            peer_name=peer,
            goal=goal,
        )
