"""The rules of the maze, the gradient of REINFORCE, and the verdict on made-up results."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqloom.lab.policy import (
    ACTIONS,
    BUMP,
    CORRIDOR,
    FORWARD,
    JUNCTION,
    LEFT,
    PRIZE,
    RIGHT,
    SPARE_STEPS,
    WITH,
    WITHOUT,
    Agent,
    Outcome,
    Policy,
    play,
    reinforce,
    share_of_prizes,
)


class Scripted(nn.Module):
    """A policy that does what a table says for each observation, and remembers the signal."""

    def __init__(self, at_junction: int | None, *, elsewhere: int = FORWARD) -> None:
        super().__init__()
        self.at_junction, self.elsewhere = at_junction, elsewhere

    def forward(self, observation: Tensor, state: Any) -> tuple[Tensor, Any]:
        signal = observation if state is None else state
        turn = signal if self.at_junction is None else torch.full_like(signal, self.at_junction)
        action = torch.where(observation == JUNCTION, turn, self.elsewhere)
        return nn.functional.one_hot(action, ACTIONS) * 1000.0, signal


def outcomes(agent: str, *shares: float) -> list[Outcome]:
    return [
        Outcome(agent, corridor, seed, episodes, share if episodes == 20 else 0.7)
        for seed, share in enumerate(shares)
        for corridor in (1, 2)
        for episodes in (10, 20)
    ]


@pytest.mark.parametrize(
    ("memory", "none", "status"),
    [
        ((0.99, 0.98, 1), (0.5, 0.49, 0.52), "holds"),
        ((0.8, 0.81, 0.8), (0.5, 0.49, 0.52), "does not hold here"),
        ((0.99, 0.98, 1), (0.9, 0.91, 0.9), "does not hold here"),
        ((0.99, 0.5, 1), (0.5, 0.49, 0.52), "not decided"),
        ((1,), (0.5,), "not decided"),
    ],
)
def test_the_verdict_follows_the_rule(memory: tuple[float, ...], none: tuple[float, ...], status: str) -> None:
    assert Policy().verdict(outcomes(WITH, *memory) + outcomes(WITHOUT, *none)).status == status


def test_only_the_end_of_training_counts() -> None:
    assert share_of_prizes(outcomes(WITH, 0.9, 1), WITH).value == pytest.approx(0.95)


def test_the_maze_rewards_the_side_of_the_signal() -> None:
    prizes = torch.tensor([LEFT, RIGHT])
    chance = torch.Generator().manual_seed(1)
    remembered = play(Scripted(None), prizes, 3, chance)
    assert remembered.rewards.tolist() == [[0, 0, 0, 0, PRIZE]] * 2
    left = play(Scripted(LEFT), prizes, 3, chance)
    assert left.found.tolist() == [True, False]
    assert left.active.all()
    walls = play(Scripted(None, elsewhere=LEFT), prizes, 1, chance)
    assert walls.rewards.shape == (2, 1 + 2 + SPARE_STEPS)
    assert torch.equal(walls.rewards, torch.full_like(walls.rewards, BUMP))


def test_an_agent_without_memory_does_not_know_the_past() -> None:
    torch.manual_seed(1)
    first, then = torch.tensor([LEFT, RIGHT]), torch.tensor([CORRIDOR, CORRIDOR])
    for memory in (True, False):
        agent = Agent(8, memory=memory)
        _, state = agent(first, None)
        logits, _ = agent(then, state)
        assert torch.equal(logits[0], logits[1]) is not memory


def test_the_estimator_points_uphill() -> None:
    """One step at the junction: the gradient of the expected reward is known in closed form."""
    logits = nn.Parameter(torch.tensor([0.3, -0.2, 0.1]))

    class Fixed(nn.Module):
        def forward(self, observation: Tensor, state: Any) -> tuple[Tensor, Any]:
            return logits.expand(len(observation), -1), state

    count = 40_000
    episodes = play(Fixed(), torch.zeros(count, dtype=torch.long), -1, torch.Generator().manual_seed(2))
    first = episodes._replace(**{name: value[:, :1] for name, value in episodes._asdict().items()})
    (estimate,) = torch.autograd.grad(-reinforce(first, entropy=0) / count, logits)
    rewards = torch.tensor([PRIZE, 0.0, BUMP])
    (exact,) = torch.autograd.grad(logits.softmax(-1) @ rewards, logits)
    # 40,000 samples of a term with a spread below 0.5: a standard error below 0.0025.
    assert torch.allclose(estimate, exact, atol=0.01)
