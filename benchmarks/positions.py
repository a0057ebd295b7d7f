"""Position schemes on sequences twice as long as in training: ``python -m benchmarks.positions`` prints the table.

A Transformer encoder reads random digits and labels each element with the digit three places before it (copy), or with
its mirror image, the digit as far from the other end (reverse). It is trained on sequences of up to 16 digits.
"""

import argparse
import math
import statistics
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from seqloom.layers.layer import Layer
from seqloom.layers.transformer.block import transformer
from seqloom.layers.transformer.positions import KINDS, Kind

LENGTH, MIN_LENGTH, DIGITS, OFFSET = 16, 4, 10, 3
SIZE, HEADS, LAYERS, BATCH, UPDATES, LEARNING_RATE, WARMUP = 64, 4, 2, 32, 2000, 2e-3, 100
EVALUATED = 500
"""Sequences of each length that are scored."""
TASKS: dict[str, Callable[[Tensor], Tensor]] = {
    "copy": lambda digits: torch.cat([torch.zeros_like(digits[:, :OFFSET]), digits[:, :-OFFSET]], dim=1),
    "reverse": lambda digits: digits.flip(1),
}


class Labeller(nn.Module):
    """An embedding, Transformer layers that see the whole sequence, and a label for each element."""

    def __init__(self, positions: Kind) -> None:
        super().__init__()
        self.embed = nn.Embedding(DIGITS, SIZE)
        self.layer: Layer = transformer(SIZE, SIZE, layers=LAYERS, heads=HEADS, positions=positions, causal=False)
        self.output = nn.Linear(SIZE, DIGITS)
        nn.init.normal_(self.embed.weight, std=SIZE**-0.5)

    def forward(self, digits: Tensor) -> Tensor:  # (B, T) → (B, T, DIGITS)
        logits: Tensor = self.output(self.layer(self.embed(digits))[0])
        return logits


def accuracy(model: nn.Module, task: str, length: int) -> float:
    """The share of correct labels of new sequences of one length."""
    digits = torch.randint(DIGITS, (EVALUATED, length), generator=torch.Generator().manual_seed(length))
    with torch.no_grad():
        correct: Tensor = model.eval()(digits).argmax(dim=2) == TASKS[task](digits)
    return correct.double().mean().item()


def train(task: str, positions: Kind, *, seed: int, updates: int = UPDATES) -> nn.Module:
    """Train a model on sequences of all lengths up to LENGTH, one length per batch."""
    torch.manual_seed(seed)
    model = Labeller(positions)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / WARMUP) * (1 + math.cos(math.pi * step / updates)) / 2
    )
    for _ in range(updates):
        digits = torch.randint(DIGITS, (BATCH, int(torch.randint(MIN_LENGTH, LENGTH + 1, ()))))
        loss = cross_entropy(model(digits).flatten(0, 1), TASKS[task](digits).flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model


def measure(task: str, positions: Kind, *, seeds: int, updates: int = UPDATES) -> dict[str, float]:
    """Mean accuracy at the training length and at twice that, over models with different seeds."""
    models = [train(task, positions, seed=seed, updates=updates) for seed in range(seeds)]
    return {
        f"{task} {length}": statistics.mean(accuracy(model, task, length) for model in models)
        for length in (LENGTH, 2 * LENGTH)
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each scheme, as soon as it is measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.positions", description=__doc__.partition(":")[0])
    parser.add_argument("positions", nargs="*", metavar="POSITIONS", choices=[*KINDS, []], help="default: all")
    parser.add_argument("--seeds", type=int, default=2, help="models per scheme and task")
    parser.add_argument("--updates", type=int, default=UPDATES, help="updates per model")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    lengths = (LENGTH, 2 * LENGTH)
    print(f"| positions | {' | '.join(f'{task}, {length} digits' for task in TASKS for length in lengths)} |")
    print(f"|---|{'---|' * (len(TASKS) * len(lengths))}")
    for kind in options.positions or KINDS:
        scores = [measure(task, kind, seeds=options.seeds, updates=options.updates) for task in TASKS]
        values = [f"{100 * value:.1f}" for score in scores for value in score.values()]
        print(f"| `{kind}` | {' | '.join(values)} |", flush=True)


if __name__ == "__main__":
    main()
