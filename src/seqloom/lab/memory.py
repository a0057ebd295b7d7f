"""How far back a recurrent network can remember (Hochreiter 1991; Bengio, Simard & Frasconi 1994).

The network sees a symbol at the first step, then distractors, and has to name the symbol at the end. The gradient that
trains it has to travel the same distance back.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from seqloom.cells import LSTM, Cell, Elman, Peephole
from seqloom.insight.plotting import BLACK, COLOURS, GREY, panel_figure, save_figure
from seqloom.layers.recurrent.recurrent import Recurrent

REMEMBERED = 0.9
"""Minimum accuracy of a network that remembers the symbol."""


@dataclass(frozen=True)
class Outcome:
    """The result of one network at one length."""

    network: str
    length: int  # distractors between the symbol and the answer
    accuracy: float  # of the best attempt, on new sequences after training
    attempts: int  # trainings from new random weights
    updates: int  # of the last attempt
    gradient: float  # norm of d loss / d first input before training, mean over a batch
    seconds: float


@dataclass(frozen=True)
class MemoryExperiment:
    """The experiment: at each length, each kind of network is trained with the same budget."""

    lengths: tuple[int, ...] = (10, 20, 40, 80, 160, 320)
    symbols: int = 4  # to remember; chance is 1 / symbols
    distractors: int = 4  # different ones
    hidden_size: int = 32
    batch_size: int = 64
    attempts: int = 3  # maximum
    updates: int = 300  # maximum of one attempt
    learning_rate: float = 3e-3
    forget_bias: float = 3.0  # forget gates that are open at the start: σ(3) = 0.95
    seed: int = 1

    @property
    def networks(self) -> dict[str, Callable[[], Cell]]:
        size = self.symbols + self.distractors
        return {
            "LSTM": lambda: LSTM(size, self.hidden_size, forget_bias=self.forget_bias),
            "peephole LSTM": lambda: Peephole(size, self.hidden_size, forget_bias=self.forget_bias),
            "Elman network": lambda: Elman(size, self.hidden_size),
        }

    @property
    def chance(self) -> float:
        return 1 / self.symbols

    def cases(self) -> list[tuple[str, int]]:
        """All pairs of a network and a length, short lengths first."""
        return [(network, length) for length in self.lengths for network in self.networks]

    def measure(self, network: str, length: int) -> Outcome:
        """Train one network at one length; retry with new random weights if it does not remember."""
        started = time.perf_counter()
        threads = torch.get_num_threads()
        # The tensors are small, and with one thread the result does not depend on the number of cores.
        torch.set_num_threads(1)
        try:
            gradient = self._gradient(network, length)
            best, attempts, updates = 0.0, 0, 0
            while best < REMEMBERED and attempts < self.attempts:
                accuracy, updates = self._train(network, length, self.seed + attempts)
                best, attempts = max(best, accuracy), attempts + 1
        finally:
            torch.set_num_threads(threads)
        return Outcome(network, length, best, attempts, updates, gradient, time.perf_counter() - started)

    def _build(self, network: str, seed: int) -> tuple[Recurrent, nn.Linear]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return Recurrent(self.networks[network]()), nn.Linear(self.hidden_size, self.symbols)

    def _train(self, network: str, length: int, seed: int) -> tuple[float, int]:
        """Train until ten consecutive batches have no error; the accuracy on new sequences, and the updates."""
        layer, answer = self._build(network, seed)
        generator = torch.Generator().manual_seed(seed)
        parameters = [*layer.parameters(), *answer.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=self.learning_rate, betas=(0.9, 0.99))
        correct_batches = updates = 0
        while correct_batches < 10 and updates < self.updates:
            x, symbol = self._draw(length, self.batch_size, generator)
            logits = answer(layer(x)[0][:, -1])
            optimizer.zero_grad()
            functional.cross_entropy(logits, symbol).backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            correct_batches = correct_batches + 1 if torch.equal(logits.argmax(-1), symbol) else 0
            updates += 1
        with torch.no_grad():
            x, symbol = self._draw(length, 512, generator)
            accuracy = (answer(layer(x)[0][:, -1]).argmax(-1) == symbol).double().mean().item()
        return accuracy, updates

    def _gradient(self, network: str, length: int) -> float:
        layer, answer = self._build(network, self.seed)
        x, symbol = self._draw(length, self.batch_size, torch.Generator().manual_seed(self.seed))
        x.requires_grad_()
        loss = functional.cross_entropy(answer(layer(x)[0][:, -1]), symbol, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, x)
        return float(gradient[:, 0].norm(dim=-1).mean())

    def _draw(
        self, length: int, batch: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:  # (B, 1 + length, symbols + distractors), (B,)
        symbol = torch.randint(self.symbols, (batch, 1), generator=generator)
        others = torch.randint(self.symbols, self.symbols + self.distractors, (batch, length), generator=generator)
        x = functional.one_hot(torch.cat([symbol, others], dim=1), self.symbols + self.distractors)
        return x.float(), symbol[:, 0]


def memory_span(outcomes: Sequence[Outcome], network: str) -> int:
    """The largest length up to which the network remembers at every shorter length, too; 0 if there is none."""
    furthest = 0
    for outcome in _of_network(outcomes, network):
        if outcome.accuracy < REMEMBERED:
            break
        furthest = outcome.length
    return furthest


def _of_network(outcomes: Sequence[Outcome], network: str) -> list[Outcome]:
    return sorted((outcome for outcome in outcomes if outcome.network == network), key=lambda outcome: outcome.length)


def verdict(outcomes: Sequence[Outcome]) -> str:
    """The conclusion, in two sentences."""
    longest = max(outcome.length for outcome in outcomes)
    spans = {outcome.network: memory_span(outcomes, outcome.network) for outcome in outcomes}
    remembered = [
        f"the {network} over {'at least ' if steps == longest else ''}{steps} steps"
        for network, steps in sorted(spans.items(), key=lambda item: -item[1])
    ]
    gradients = {outcome.network: outcome.gradient for outcome in outcomes if outcome.length == longest}
    weakest, strongest = min(gradients, key=gradients.__getitem__), max(gradients, key=gradients.__getitem__)
    explained = all(spans[weakest] < steps for network, steps in spans.items() if network != weakest)
    return (
        f"The symbol is remembered by {', by '.join(remembered)}. "
        f"{'The reason: o' if explained else 'O'}ver {longest} steps, "
        f"the gradient that reaches the symbol is {gradients[strongest]:.0e} in the {strongest}, "
        f"{gradients[weakest]:.0e} in the {weakest}."
    )


def tabulate(outcomes: Sequence[Outcome]) -> tuple[list[str], list[list[str]]]:
    """Column headings and rows: accuracy and gradient of each network at each length."""
    networks = list(dict.fromkeys(outcome.network for outcome in outcomes))
    by_case = {(outcome.network, outcome.length): outcome for outcome in outcomes}
    columns = ["steps", *networks, *(f"∇ {network}" for network in networks)]
    rows = []
    for length in sorted({outcome.length for outcome in outcomes}):
        accuracies = [f"{by_case[network, length].accuracy:.0%}" for network in networks]
        gradients = [f"{by_case[network, length].gradient:.0e}" for network in networks]
        rows.append([str(length), *accuracies, *gradients])
    return columns, rows


def draw(outcomes: Sequence[Outcome], path: Path, *, chance: float) -> None:
    """Two panels: accuracy against the length, and the gradient that reaches the first step. Needs matplotlib."""
    figure = panel_figure(2, width=5.2, height=4.0)
    accuracy_panel, gradient_panel = figure.axes
    lengths = sorted({outcome.length for outcome in outcomes})
    networks = list(dict.fromkeys(outcome.network for outcome in outcomes))
    for index, network in enumerate(networks):
        own = _of_network(outcomes, network)
        steps = [outcome.length for outcome in own]
        for panel, values in (
            (accuracy_panel, [outcome.accuracy for outcome in own]),
            (gradient_panel, [outcome.gradient for outcome in own]),
        ):
            # Curves may coincide: later ones are thinner.
            later = len(networks) - 1 - index
            style: Any = {"marker": "os^Dv"[index % 5], "markersize": 5 + 2 * later, "linewidth": 1.7 + 1.2 * later}
            panel.plot(steps, values, label=network, color=COLOURS[index % len(COLOURS)], **style)
    accuracy_panel.axhline(chance, color=GREY, linestyle=":")
    accuracy_panel.annotate("chance", (lengths[0], chance), xytext=(0, 4), textcoords="offset points", color=GREY)
    accuracy_panel.set(ylim=(0, 1.05), ylabel="accuracy after training")
    accuracy_panel.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    accuracy_panel.set_title("Is the first symbol remembered?", loc="left", fontsize=10, fontweight="bold", color=BLACK)
    gradient_panel.set(yscale="log", ylabel="‖∂ loss / ∂ x₁‖ before training")
    gradient_panel.set_title("How much gradient reaches it?", loc="left", fontsize=10, fontweight="bold", color=BLACK)
    for panel in (accuracy_panel, gradient_panel):
        panel.set(xscale="log", xlabel="steps between symbol and answer")
        panel.set_xticks(lengths, [str(length) for length in lengths], minor=False)
        panel.set_xticks([], minor=True)
    handles, labels = accuracy_panel.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, markerscale=0.8)
    save_figure(figure, path)
