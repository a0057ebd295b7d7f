"""The laws of seqloom.testing for every kind of Transformer, alone and in a mixed stack."""

from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.registry import INPUT, noise, randomize

from seqloom import state as states
from seqloom.layers.layer import Layer
from seqloom.layers.transformer.positions import FEATURE_KINDS, KINDS
from seqloom.models.encoder import PrenetConfig, RecurrenceConfig, build_stack
from seqloom.testing.laws import Law, assert_close, check_law
from seqloom.testing.layers import LayerCase, laws_for, padding_is_invisible, pieces_equal_the_whole

pytestmark = pytest.mark.sampled(12)

MEMORY = 6


def build(
    positions: str, norm: str, *, causal: bool, memory: bool, context: int = 0, below: str = "", **others: Any
) -> Layer:
    options = others | {
        "heads": 2,
        "positions": positions,
        "norm": norm,
        "max_distance": 2,
        "feed_forward": 10,
        "context": context,
        "max_positions": 64,
    }
    cell = (below, "transformer", "transformer") if below else "transformer"
    recurrence = RecurrenceConfig(
        cell=cell, layers=3 if below else 2, hidden_size=8, bidirectional=not causal, options=options
    )
    layer = build_stack(PrenetConfig(), recurrence, INPUT, causal=causal, memory_size=MEMORY if memory else 0)
    randomize(layer)
    return layer.eval()


def cases() -> dict[str, LayerCase]:
    """Every kind of positions with every direction and every norm; half of them with cross-attention.

    Cross-attention alternates, so that it occurs with each kind of positions, each norm and each direction: it does
    not depend on them.
    """
    named: dict[str, LayerCase] = {}
    modes = ((True, 0), (True, 3), (False, 0))  # causal, context
    for index, (positions, (causal, context), norm) in enumerate(product(KINDS, modes, ("pre", "post"))):
        if positions == "normalized_counts" and causal:
            continue  # needs the whole sequence
        memory = (index // 2 + index) % 2 == 0
        name = f"{positions}-{norm}-{'causal' if causal else 'both'}-{'memory' if memory else 'alone'}-{context}"
        layer = build(positions, norm, causal=causal, memory=memory, context=context)
        named[name] = _case(layer, name, memory=memory)
    for kind in FEATURE_KINDS:
        causal = kind != "normalized_counts"
        layer = build(kind, "pre", causal=causal, memory=False, combine_positions="concatenate")
        name = f"mixed-concatenated-{kind}-{'causal' if causal else 'both'}"
        named[name] = _case(layer, name, memory=False)
    for kind, causal in product(("rotary", "sinusoidal"), (True, False)):
        name = f"mixed-linear-{kind}-{'causal' if causal else 'both'}"
        named[name] = _case(build(kind, "pre", causal=causal, memory=False, attention="linear"), name, memory=False)
    for kind in ("rotary", "relative", "alibi"):
        name = f"mixed-window-{kind}-both"
        named[name] = _case(build(kind, "pre", causal=False, memory=False, context=2), name, memory=False)
    mixed = build("none", "pre", causal=True, memory=True, below="gru")
    named["mixed-causal"] = _case(mixed, "mixed-causal", memory=True)
    both = build("rotary", "post", causal=False, memory=False, below="lstm")
    named["mixed-both"] = _case(both, "mixed-both", memory=False)
    return named


def _case(layer: Layer, name: str, *, memory: bool) -> LayerCase:
    return LayerCase(
        layer,
        name,
        direction="forward" if "causal" in name else "both",
        memory_size=MEMORY if memory else 0,
        comparable_state=False,  # a cache
        tolerance=1e-12,
    )


CASES = cases()
CAUSAL = [name for name in CASES if "causal" in name]


def test_cross_attention_is_combined_with_every_option() -> None:
    combinations = {
        (part, kind) for name in CASES if "mixed" not in name for *parts, kind, _ in [name.split("-")] for part in parts
    }
    assert combinations == {
        (part, kind) for part in (*KINDS, "pre", "post", "causal", "both") for kind in ("memory", "alone")
    }


@pytest.mark.parametrize(
    ("law", "name"),
    [pytest.param(law, name, id=f"{law.__name__}-{name}") for name, case in CASES.items() for law in laws_for(case)],
)
def test_law(law: Law, name: str) -> None:
    check_law(law, CASES[name])


# Without gradients, a step runs as a compiled program.
@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("gradients", [True, False])
def test_single_steps_equal_the_whole(name: str, *, gradients: bool) -> None:
    with torch.set_grad_enabled(gradients):
        check_law(pieces_equal_the_whole, CASES[name], cuts=(1, 2, 5))
        check_law(pieces_equal_the_whole, CASES[name], lengths=(6, 6), source=(2, 0), cuts=(1, 2, 3, 4, 5))


@settings(max_examples=60)
@given(
    name=st.sampled_from(CAUSAL),
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 6), max_size=6),
)
def test_pieces_equal_the_whole_however_cut(name: str, lengths: list[int], cuts: list[int]) -> None:
    with torch.no_grad():
        check_law(pieces_equal_the_whole, CASES[name], lengths=lengths, source=(2, 0, 3, 1)[: len(lengths)], cuts=cuts)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("filling", [0.0, float("inf")])  # NaN: among the laws
def test_padding_is_invisible_whatever_its_content(name: str, filling: float) -> None:
    check_law(padding_is_invisible, CASES[name], extra=(4, 0), filling=filling)


@pytest.mark.parametrize("name", CAUSAL)
def test_rows_of_a_state_can_be_repeated_and_then_selected(name: str) -> None:
    case, x, rows = CASES[name], noise(3, 6, INPUT), torch.tensor([2, 0])
    with torch.no_grad():
        whole, _ = case.layer(x, None, case.start(3))
        _, state = case.layer(x[:, :4], None, case.start(3))
        _, after = case.layer(x[:, 4:5].repeat_interleave(2, dim=0), None, states.repeat(state, 2))
        last, _ = case.layer(x[rows, 5:], None, states.select(after, 2 * rows))
    assert_close({"outputs": last}, {"outputs": whole[rows, 5:]}, tolerance=1e-12)
