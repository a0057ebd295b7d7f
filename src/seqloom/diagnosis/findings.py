"""From measurements to findings: one verdict in plain words for each, with the keys that may change it."""

import math
from collections.abc import Iterator, Sequence
from functools import partial

from seqloom.diagnosis import thresholds as limit
from seqloom.diagnosis.activity import UNGATED, GateUse
from seqloom.diagnosis.attention import HeadUse
from seqloom.diagnosis.diagnosis import SEVERITIES, Finding, PartDiagnosis, Severity
from seqloom.diagnosis.gradients import BACKWARD, FORWARD, GradientByLag
from seqloom.formats import format_number, percent_in_text

FORGETTING = {"lstm", "peephole", "layer_norm_lstm", "mogrifier_lstm", "slstm"}
"""Cells whose forget gate has a bias that can be set."""


def part_findings(part: PartDiagnosis, *, reach: int, pooling: str) -> Iterator[Finding]:
    """The findings about one part of a model.

    ``reach``: steps that the model has to bridge (0: not given). ``pooling``: key of the pooling, if there is one.
    """
    if part.gradients:
        yield memory(part, reach=reach, pooling=pooling)
        yield stability(part)
    if part.gates:
        yield gates(part)
    if part.units:
        yield units(part)


def by_severity(findings: Sequence[Finding]) -> list[Finding]:
    """The most serious first, of these a learning rate that is too high, which causes others; else in their order."""
    return sorted(
        findings,
        key=lambda finding: (
            SEVERITIES.index(finding.severity),
            finding.name != "learning rate" or finding.learning_rate != "lower",
        ),
    )


def memory(part: PartDiagnosis, *, reach: int = 0, pooling: str = "") -> Finding:
    """How far back the gradient reaches, compared with what is needed."""
    by_direction = {
        direction: max(curves, key=lambda curve: (curve.memory is None, curve.reached))
        for direction in (FORWARD, BACKWARD)
        if (curves := [curve for curve in part.gradients if curve.direction == direction and len(curve.mean) > 1])
    }
    evidence = {
        "steps_back": {direction: curve.memory for direction, curve in by_direction.items()},
        "largest_lag": {direction: len(curve.mean) - 1 for direction, curve in by_direction.items()},
        "factor_per_step": {direction: curve.factor for direction, curve in by_direction.items()},
        "median_length": part.length,
        "loss_at_ends": part.loss_at_ends,
        "needed": reach or None,
    }
    finding = partial(Finding, "memory", evidence=evidence, part=part.name)
    if not by_direction:
        verdict = f"The sequences that the {part.name} reads are too short to say how far back it sees."
        return finding("healthy", verdict)
    shortest = min(by_direction.values(), key=lambda curve: (curve.memory is None, curve.reached))
    steps = _describe_reach(by_direction)
    needed = reach or (round(part.length) - 1 if part.loss_at_ends else 0)
    attends = all(curve.of == "input" for curve in by_direction.values()) and part.cell == "transformer"
    severity = _memory_severity(shortest, needed=needed, length=part.length, given=bool(reach))
    if attends and not reach:  # attention spreads the gradient over all positions: little at each says nothing
        severity = "healthy"
        far = max(curve.half for curve in by_direction.values() if not math.isnan(curve.half))
        verdict = (
            f"Attention takes the gradient directly to other positions: half of what leaves its own position in the "
            f"{part.name} goes further than {far:.0f} {_plural('step', far)}; sequences have {part.length:.0f}."
        )
        return finding(severity, verdict)
    about = f"This model sees {steps}" if part.name in ("layer", "model") else f"The {part.name} sees {steps}"
    if severity == "healthy":
        context = f"; sequences have {part.length:.0f} (median)"
        if shortest.memory is None and reach > shortest.reached:
            context += f": give longer ones to find out whether it sees {reach} steps"
        return finding(severity, f"{about}{context}.")
    if reach:
        gap = f"dependencies over {reach} steps are out of reach"
    elif part.loss_at_ends:
        gap = (
            f"the loss comes at the end of sequences of {part.length:.0f} steps (median), so that what was read before "
            "is hardly learned"
        )
    else:
        gap = f"sequences have {part.length:.0f} steps (median): more distant context is hardly learned"
    saturated = max((_harm(use) for use in part.gates), default=0.0) >= limit.MOST_STUCK
    advice, keys = _memory_advice(part, pooling=pooling if part.loss_at_ends else "")
    if saturated and part.key:
        advice, keys = "Its outputs or gates are saturated: lower train.learning_rate.", ("train.learning_rate",)
    verdict = f"{about}; {gap} (vanishing gradient). {advice}"
    return finding(severity, verdict, keys, learning_rate="lower" if saturated and part.key else "")


def _memory_severity(curve: GradientByLag, *, needed: int, length: float, given: bool) -> Severity:
    if curve.memory is None:
        return "healthy"
    if given:
        return "problem" if curve.memory < needed else "healthy"
    if needed:
        share = curve.memory / needed
        return "problem" if share < limit.OUT_OF_REACH else "warning" if share < limit.PARTLY_IN_REACH else "healthy"
    if curve.memory >= limit.NEAR or length < limit.MANY_TIMES * curve.memory:
        return "healthy"
    return "problem" if curve.memory < limit.ALMOST_BLIND else "warning"


def _describe_reach(curves: dict[str, GradientByLag]) -> str:
    words = {FORWARD: "back", BACKWARD: "ahead"}
    texts = []
    for direction, curve in curves.items():
        about = "at least" if curve.memory is None else "about"
        texts.append(f"{about} {curve.reached} {_plural('step', curve.reached)} {words[direction]}")
    return " and ".join(texts)


def _memory_advice(part: PartDiagnosis, *, pooling: str) -> tuple[str, tuple[str, ...]]:
    """What may lengthen the memory of a part, and the keys to set."""
    cell, bias = _key(part, "cell"), _key(part, "options.forget_bias")
    if part.cell in FORGETTING:
        choices, keys = [f"{bias} = 3", f'{cell} = "transformer"'], [bias, cell]
    elif part.cell == "transformer":
        choices, keys = [f"a larger {_key(part, 'options.context')}"], [_key(part, "options.context")]
    else:
        choices, keys = [f'{cell} = "lstm" with {bias} = 3'], [cell, bias]
    if pooling:
        choices.append(f'{pooling} = "max"')
        keys.append(pooling)
    return f"Try {' or '.join(choices)}.", tuple(keys)


def stability(part: PartDiagnosis) -> Finding:
    """Whether gradients and small changes of the state grow along a sequence."""
    growth = max((max(curve.left, default=0.0) for curve in part.gradients), default=0.0)
    finite = all(math.isfinite(value) for curve in part.gradients for value in curve.mean)
    exponents = [each.exponent for each in part.dynamics if not math.isnan(each.exponent)]
    exponent = max(exponents, default=math.nan)
    chaos = _exp(exponent * part.length) if exponents else 1.0
    evidence = {
        "largest_growth": growth,
        "lyapunov_exponent": {f"{each.layer}, {each.direction}": each.exponent for each in part.dynamics},
        "jacobian_singular_value": {f"{each.layer}, {each.direction}": each.singular_value for each in part.dynamics},
        "matrix_singular_values": {
            f"{each.layer}, {each.direction}": {norm.matrix: norm.value for norm in each.matrices}
            for each in part.dynamics
        },
    }
    finding = partial(Finding, "stability", evidence=evidence, part=part.name)
    severity = _severity(max(growth, chaos), warning=limit.GROWN, problem=limit.EXPLODED)
    if not finite or math.isnan(growth):
        severity = "problem"
    if severity == "healthy":
        text = f"Gradients do not explode in the {part.name}"
        if exponents:
            over = f" within {part.length:g} steps, the median length, although" if exponent > 0 else ":"
            text += f"{over} {_describe_exponent(exponent)}"
            if math.isfinite(exponent):
                text += f" (largest Lyapunov exponent {exponent:+.3f} per step)"
        return finding(severity, f"{text}.")
    if not finite:
        text = f"Gradients in the {part.name} are not finite."
    elif growth >= chaos:
        far = max(part.gradients, key=lambda curve: max(curve.left, default=0.0))
        lag = far.left.index(max(far.left))
        text = (
            f"Gradients explode in the {part.name}: {lag} steps back they are {format_number(growth, 2)} times as "
            "large as at the target."
        )
    else:
        text = (
            f"The {part.name} is chaotic: {_describe_exponent(exponent)} (largest Lyapunov exponent {exponent:+.3f}), "
            f"{format_number(chaos, 2)} times over a sequence of {part.length:.0f} steps, so that gradients explode."
        )
    keys = ["train.learning_rate", "train.clip_norm"] if part.key else []
    advice = "Lower train.learning_rate, keep train.clip_norm at 1" if part.key else "Lower the learning rate, clip"
    if part.cell not in (*FORGETTING, "gru", "transformer"):
        keys.append(_key(part, "cell"))
        advice += f', or try {_key(part, "cell")} = "lstm"'
    return finding(severity, f"{text} {advice}.", tuple(keys), learning_rate="lower")


def _describe_exponent(exponent: float) -> str:
    if exponent == -math.inf:
        return "the state does not depend on the one before"
    change = math.exp(exponent) - 1
    return (
        f"a small change of the state {'grows' if change > 0 else 'shrinks'} by {percent_in_text(abs(change))} a step"
    )


def gates(part: PartDiagnosis) -> Finding:
    """Gates and activations that are saturated, on the same side at all steps."""
    evidence = {
        f"{use.layer}, {use.direction}, {use.gate}": {
            "mean": use.mean,
            "saturated_low": use.low,
            "saturated_high": use.high,
            "stuck_units": use.stuck,
        }
        for use in part.gates
    }
    worst = max(part.gates, key=_harm)
    harm = _harm(worst)
    finding = partial(Finding, "gates", evidence=evidence, part=part.name)
    severity = _severity(harm, warning=limit.MANY_STUCK, problem=limit.MOST_STUCK)
    if severity == "healthy":
        verdict = f"Gates of the {part.name} react to the input: {_describe_gates(part.gates)}."
        if all(use.bounds == (-1, 1) for use in part.gates):
            share = max(use.low + use.high for use in part.gates)
            verdict = f"{percent_in_text(share)} of the outputs of the {part.name} are saturated."
        return finding(severity, verdict)
    where = f"the {worst.gate} gate" if worst.bounds == (0, 1) else f"the {worst.gate}"
    if worst.gate != UNGATED or worst.bounds == (0, 1):
        side = "saturated" if worst.bounds != (0, 1) else "closed" if worst.stuck_low >= worst.stuck_high else "open"
        text = f"{percent_in_text(harm)} of the units of {where} of the {part.name} ({worst.layer}) are always {side}"
    else:
        text = f"{percent_in_text(harm)} of the outputs of the {part.name} ({worst.layer}) are saturated"
    keys = ("train.learning_rate", "train.clip_norm") if part.key else ()
    advice = "Lower train.learning_rate" if part.key else "Lower the learning rate"
    verdict = f"{text}, so that almost no gradient passes. {advice}, or scale the inputs."
    return finding(severity, verdict, keys, learning_rate="lower")


def _harm(use: GateUse) -> float:
    """Share of a gate that passes no gradient: units that are always closed, or always saturated on the same side.

    A gate that is always open passes everything on, which is how a memory is kept. The output of a cell without gates
    is the only path of the gradient, so that each saturated value counts.
    """
    if use.bounds == (-1, 1) and use.gate == UNGATED:
        return use.low + use.high
    return use.stuck_low if use.effect else use.stuck


def _describe_gates(uses: Sequence[GateUse]) -> str:
    keeping = [use for use in uses if use.effect == "keeps"]
    if keeping:
        mean = sum(use.mean for use in keeping) / len(keeping)
        return f"a unit keeps {percent_in_text(mean)} of its value at a step, on average"
    largest = max(use.stuck for use in uses)
    if not largest:
        return "no unit of a gate is stuck"
    return f"at most {percent_in_text(largest)} of the units of a gate are stuck"


def units(part: PartDiagnosis) -> Finding:
    """Dead and redundant units, and how many dimensions the states fill."""
    evidence = {
        f"{use.layer}, {use.direction}": {
            "units": use.units,
            "dead": use.dead,
            "redundant": use.redundant,
            "effective_rank": use.effective_rank,
            "steps": use.steps,
        }
        for use in part.units
    }
    worst = max(part.units, key=lambda use: use.dead / use.units)
    share = worst.dead / worst.units
    size = _key(part, "hidden_size")
    finding = partial(Finding, "units", evidence=evidence, part=part.name)
    severity = _severity(share, warning=limit.MANY_DEAD, problem=limit.MOST_DEAD)
    if severity != "healthy":
        verdict = (
            f"{worst.dead} of the {worst.units} units of the {part.name} ({worst.layer}) are dead: their output hardly "
            "changes whatever is read. Lower the learning rate; with a relu, try leaky_relu."
        )
        keys = ("train.learning_rate", _key(part, "options.activation")) if part.key else ()
        return finding(severity, verdict, keys, learning_rate="lower")
    narrow = min(part.units, key=lambda use: use.effective_rank / use.units)
    rank = f"{narrow.effective_rank:.0f} of {narrow.units} dimensions"
    measurable = narrow.steps >= limit.ENOUGH_STEPS * narrow.units
    if measurable and narrow.effective_rank < limit.LOW_RANK * narrow.units:
        verdict = (
            f"The states of the {part.name} ({narrow.layer}) fill only about {rank}, and {narrow.redundant} units "
            f"repeat another: it has learned little yet, or a smaller {size} would do."
        )
        return finding("warning", verdict, (size,))
    few = "" if measurable else f", as far as {narrow.steps:,} steps can tell"
    dead = f"{worst.dead} dead" if worst.dead else "no dead"
    verdict = f"The states of the {part.name} fill about {rank} (effective rank{few}), with {dead} units."
    return finding("healthy", verdict)


def attention(heads: Sequence[HeadUse]) -> Finding:
    """Heads that attend to everything alike, or to a single place."""
    evidence = {
        f"{head.layer}, head {head.head}": {"distance": head.distance, "entropy": head.entropy, "places": head.places}
        for head in heads
    }
    finding = partial(Finding, "attention", evidence=evidence)
    even = [head for head in heads if head.entropy >= limit.EVEN]
    single = [head for head in heads if head.entropy <= limit.SINGLE]
    distances = [head.distance for head in heads if head.distance is not None]
    if len(even) > limit.MOST_HEADS * len(heads):
        verdict = (
            f"{len(even)} of {len(heads)} heads attend to all positions alike: they choose nothing. The model has not "
            "learned to attend yet: train longer, or use another train.learning_rate, with train.warmup."
        )
        return finding("warning", verdict, ("train.learning_rate", "train.warmup"))
    if len(single) > limit.MOST_HEADS * len(heads):
        verdict = (
            f"{len(single)} of {len(heads)} heads attend to a single position, whose softmax passes almost no "
            "gradient. If the scores are poor: lower train.learning_rate, or use train.warmup."
        )
        return finding("warning", verdict, ("train.learning_rate", "train.warmup"), learning_rate="lower")
    places = sum(head.places for head in heads) / len(heads)
    verdict = f"A head attends to {places:.1f} positions on average"
    if distances:
        verdict += f", {min(distances):.1f} to {max(distances):.1f} steps away"
    return finding("healthy", f"{verdict}.")


def _severity(value: float, *, warning: float, problem: float) -> Severity:
    """How serious it is that a value has reached these limits."""
    return "problem" if value >= problem else "warning" if value >= warning else "healthy"


def _key(part: PartDiagnosis, name: str) -> str:
    """A key of the part's section, or the argument of ``seqloom.recurrent``."""
    return f"{part.key}.{name}" if part.key else name.removeprefix("options.")


def _plural(noun: str, count: float) -> str:
    return noun if round(count) == 1 else f"{noun}s"


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf
