"""Whether a policy needs memory: an agent in a T-maze (Bakker 2002), trained by REINFORCE (Williams 1992).

At the start, a signal says whether the prize lies to the left or to the right. Then a corridor follows in which all
places look the same, and at its end a junction. The agent sees only the place where it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from seqloom.data.batch import Batch
from seqloom.insight.plotting import panel_figure
from seqloom.lab.curves import collect_curves
from seqloom.lab.estimate import Estimate, conclude, seed_means
from seqloom.lab.experiment import Experiment, Table, Trial, Verdict
from seqloom.lab.network import evaluation_updates, train
from seqloom.lab.panels import draw_curves, legend_below, mark_level, set_percent_axis, set_title
from seqloom.layers.build import recurrent
from seqloom.tasks.task import Loss
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WITH, WITHOUT = "with memory", "without memory"
AGENTS = (WITH, WITHOUT)
SIGNAL_LEFT, SIGNAL_RIGHT, CORRIDOR, JUNCTION = range(4)
OBSERVATIONS = 4
LEFT, RIGHT, FORWARD = range(3)
ACTIONS = 3
PRIZE, BUMP = 1.0, -0.1
"""Rewards: at the right end of the junction, and for walking into a wall."""
SPARE_STEPS = 5
"""Steps beyond the shortest way after which an episode ends without a prize."""
EVALUATIONS = 10
EPISODES = 500
"""Episodes of an evaluation."""
GOOD, GUESSING = 0.9, 0.6
"""Shares of prizes of an agent that knows where the prize is, and of one that does not."""


@dataclass(frozen=True)
class Outcome:
    """An agent at one moment of its training."""

    agent: str
    corridor: int
    seed: int
    episodes: int  # that it has learnt from
    prizes: float  # share of new episodes with the prize


class Agent(nn.Module):
    """A policy: an LSTM and a linear map to actions; without memory, its state is reset before each step."""

    def __init__(self, hidden_size: int, *, memory: bool) -> None:
        super().__init__()
        self.memory = memory
        self.layer = recurrent("lstm", OBSERVATIONS, hidden_size)
        self.output = nn.Linear(hidden_size, ACTIONS)

    def forward(self, observation: Tensor, state: Any) -> tuple[Tensor, Any]:  # (B,) → (B, ACTIONS)
        x = functional.one_hot(observation, OBSERVATIONS).float().unsqueeze(1)
        y, state = self.layer(x, None, state if self.memory else None)
        return self.output(y[:, 0]), state


class Episodes(NamedTuple):
    """What an agent did in a batch of mazes."""

    log_probabilities: Tensor  # (B, T) of the actions
    entropies: Tensor  # (B, T) of the policy
    rewards: Tensor  # (B, T)
    active: Tensor  # (B, T), False after the end of an episode

    @property
    def found(self) -> Tensor:  # (B,), whether the prize was found
        return (self.rewards == PRIZE).any(dim=1)


class Policy(Experiment):
    """Agents with and without memory in a T-maze."""

    topic: ClassVar[str] = "Learning"
    question: ClassVar[str] = "Does a policy need memory?"
    claim: ClassVar[str] = (
        "Where the present observation does not say what to do, a recurrent policy finds the prize, and one without "
        "memory can only guess."
    )
    source: ClassVar[str] = "Bakker 2002; Wierstra et al. 2010; lectures on sequence modelling"
    rule: ClassVar[str] = (
        "Both agents have the same network and see as many episodes; the one without memory starts each step from the "
        "initial state. The claim holds if, after training, the share of new episodes with the prize (mean over "
        "corridors, then over seeds) is above 90 % with memory and below 60 % without, both with the whole 95 % "
        "interval."
    )
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 2, "corridors": (1,), "hidden_size": 4, "updates": 10, "batch_size": 4,
    }  # fmt: skip
    thorough: ClassVar[Mapping[str, Any]] = {"seeds": 8, "corridors": (2, 5, 10), "updates": 800}
    row: ClassVar[type[Any]] = Outcome

    corridors: tuple[int, ...] = Field((2, 5), min_length=1, description="Places between the signal and the junction.")
    hidden_size: int = Field(16, ge=1, description="Units of the policy.")
    batch_size: int = Field(32, ge=2, description="Episodes per update.")
    updates: int = Field(300, ge=10, description="Updates of each training.")
    learning_rate: float = Field(1e-2, gt=0, description="Learning rate of Adam.")
    entropy: float = Field(0.02, ge=0, description="Weight of the policy's entropy, which encourages exploration.")

    def trials(self) -> list[Trial]:
        return [
            Trial(f"{agent}, corridor of {corridor}, seed {seed}", partial(self._measure, agent, corridor, seed))
            for seed in self.all_seeds
            for corridor in self.corridors
            for agent in AGENTS
        ]

    def _measure(self, name: str, corridor: int, seed: int) -> list[Outcome]:
        torch.manual_seed(seed)
        agent = Agent(self.hidden_size, memory=name == WITH)
        chance = torch.Generator().manual_seed(seed)

        def loss(model: nn.Module, batch: Batch) -> Loss:
            episodes = play(model, batch.target, corridor, chance)
            return Loss(reinforce(episodes, entropy=self.entropy), batch.items)

        def draw() -> Batch:
            prizes = torch.randint(2, (self.batch_size,), generator=chance)
            return Batch(prizes, prizes, items=self.batch_size)

        settings = TrainConfig(updates=self.updates, learning_rate=self.learning_rate, schedule="constant", clip_norm=1)
        evaluated = evaluation_updates(self.updates, EVALUATIONS)
        rows = []
        for event in train(agent, draw, settings, loss=loss):
            if event.update in evaluated:
                share = evaluate(agent, corridor, seed=seed)
                rows.append(Outcome(name, corridor, seed, event.update * self.batch_size, share))
        return rows

    def verdict(self, rows: Sequence[Outcome]) -> Verdict:
        estimates = {agent: share_of_prizes(rows, agent) for agent in AGENTS}
        return Verdict(
            conclude(estimates[WITH].is_above(GOOD), estimates[WITHOUT].is_below(GUESSING)),
            f"After training, the agent finds the prize in {estimates[WITH].format(percent=True)} of new episodes with "
            f"memory, and in {estimates[WITHOUT].format(percent=True)} without; guessing at the junction gives 50 %.",
            estimates,
        )

    def table(self, rows: Sequence[Outcome]) -> Table:
        corridors = sorted({row.corridor for row in rows})
        cells = [
            [agent]
            + [
                share_of_prizes([row for row in rows if row.corridor == corridor], agent).format(percent=True)
                for corridor in corridors
            ]
            for agent in AGENTS
        ]
        return ["episodes with the prize", *(f"corridor of {corridor}" for corridor in corridors)], cells

    def draw(self, rows: Sequence[Outcome]) -> "Figure":
        corridors = sorted({row.corridor for row in rows})
        figure = panel_figure(len(corridors), width=4.2, height=3.6)
        for axes, corridor in zip(figure.axes, corridors, strict=True):
            own = [row for row in rows if row.corridor == corridor]
            draw_curves(axes, collect_curves((row.agent, row.episodes, row.prizes) for row in own))
            mark_level(axes, 0.5, "guessing")
            axes.set(xlabel="episodes of training", ylim=(0, 1.05))
            set_percent_axis(axes, "episodes with the prize")
            set_title(axes, f"Corridor of {corridor} place{'s' if corridor > 1 else ''}")
        legend_below(figure, figure.axes[0])
        return figure


def play(
    agent: nn.Module,
    prizes: Tensor,  # (B,), LEFT or RIGHT
    corridor: int,
    chance: torch.Generator,
) -> Episodes:
    """Let an agent act by its policy until every episode has ended."""
    place = torch.zeros_like(prizes)  # 0: the signal; corridor + 1: the junction
    active = torch.ones_like(prizes, dtype=torch.bool)
    state: Any = None
    steps: list[tuple[Tensor, ...]] = []
    for _ in range(corridor + 2 + SPARE_STEPS):
        at_junction = place == corridor + 1
        seen = torch.where(place == 0, prizes, torch.where(at_junction, JUNCTION, CORRIDOR))
        logits, state = agent(seen, state)
        log_policy = logits.log_softmax(dim=-1)
        action = torch.multinomial(log_policy.detach().exp(), 1, generator=chance)
        taken = action.squeeze(1)
        forward = taken == FORWARD
        rewards = torch.where(at_junction == forward, BUMP, torch.where(at_junction & (taken == prizes), PRIZE, 0.0))
        entropy = -(log_policy.exp() * log_policy).sum(dim=-1)
        steps.append((log_policy.gather(1, action).squeeze(1), entropy, rewards * active, active))
        active = active & ~(at_junction & ~forward)
        place = place + (forward & ~at_junction)
        if not active.any():
            break
    return Episodes(*(torch.stack(parts, dim=1) for parts in zip(*steps, strict=True)))


def reinforce(episodes: Episodes, *, entropy: float) -> Tensor:
    """The surrogate loss: log-probabilities times what followed, less the mean over the batch at the same step."""
    returns = episodes.rewards.flip(1).cumsum(dim=1).flip(1)
    active = episodes.active.float()
    baseline = (returns * active).sum(dim=0) / active.sum(dim=0).clamp(min=1)
    gain = (returns - baseline) * episodes.log_probabilities + entropy * episodes.entropies
    return -(gain * active).sum()


@torch.no_grad()
def evaluate(agent: Agent, corridor: int, *, seed: int) -> float:
    """The share of new episodes in which the agent finds the prize."""
    chance = torch.Generator().manual_seed(1000 + seed)
    prizes = torch.arange(EPISODES) % 2
    return play(agent, prizes, corridor, chance).found.double().mean().item()


def share_of_prizes(rows: Sequence[Outcome], agent: str) -> Estimate:
    """The share of episodes with the prize at the end of training, mean over corridors for each seed."""
    last = max(row.episodes for row in rows)
    final = [row for row in rows if row.agent == agent and row.episodes == last]
    return Estimate.of_mean(list(seed_means((row.seed, row.prizes) for row in final).values()))
