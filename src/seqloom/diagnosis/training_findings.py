"""Findings about a training: whether it learned, its learning rate, clipping, gradient norms, and overfitting."""

import math
from collections.abc import Iterator, Mapping
from functools import partial
from statistics import fmean, median

from seqloom.diagnosis import thresholds as limit
from seqloom.diagnosis.diagnosis import Finding
from seqloom.diagnosis.training_record import TrainingRecord, recent
from seqloom.formats import format_number, format_percent
from seqloom.metrics.learning import flat_loss

RATE, CLIP = "train.learning_rate", "train.clip_norm"


def training_findings(record: TrainingRecord, baseline: Mapping[str, float]) -> Iterator[Finding]:
    """The findings about a training; ``baseline`` has the scores of a trivial model."""
    yield learning(record, baseline.get(record.metric, math.nan))
    yield learning_rate(record)
    if record.gradient_norm:
        yield clipping(record)
    if record.group_norms:
        yield gradient_norms(record)
    if len(record.dev_loss) > 1:
        yield generalization(record)


def learning(record: TrainingRecord, baseline: float) -> Finding:
    """Whether the model is better than the trivial one."""
    first, last = recent(record.loss[:1], 1.0), recent(record.loss, 0.1)
    evidence = {"first_loss": first, "last_loss": last, "updates": record.updates, "baseline": baseline}
    finding = partial(Finding, "learning", evidence=evidence)
    if record.score:
        choose = max if record.higher_is_better else min
        best = choose(value for _, value in record.score)
        evidence["best_score"] = best
        beats = best > baseline if record.higher_is_better else best < baseline
        if record.degenerate:
            verdict = (
                f"{record.degenerate}: the model has learned nothing ({record.metric} {format_number(best, 4)}). See "
                f"the other findings for the reason; seqloom check CONFIG --learning-rate suggests a {RATE}."
            )
            return finding("problem", verdict, (RATE, record.limit))
        if not math.isnan(baseline) and not beats:
            verdict = (
                f"The model has learned nothing that the trivial baseline does not know: {record.metric} "
                f"{format_number(best, 4)} at best, baseline {format_number(baseline, 4)}. See the other findings for "
                f"the reason; seqloom check CONFIG --learning-rate suggests a {RATE}."
            )
            return finding("problem", verdict, (RATE, record.limit))
        score = f"{record.metric} {format_number(best, 4)}"
        trivial = "" if math.isnan(baseline) else f" (baseline {format_number(baseline, 4)})"
        several = len(record.loss) > 1  # a short training may have logged a single loss, which says nothing
        if several and last > (1 - limit.LITTLE) * first:
            change = "fell" if last < first else "went"
            verdict = (
                f"The model has learned little: the training loss {change} from {first:.4g} to {last:.4g}; {score}"
                f"{trivial}. See the other findings for the reason."
            )
            return finding("warning", verdict, (RATE, record.limit))
        losses = f"{first:.4g} at first, {last:.4g} at the end" if several else f"{last:.4g}"
        verdict = f"The model learns: {score}{trivial}, training loss {losses}."
        return finding("healthy", verdict)
    verdict = f"The training loss is {first:.4g} at first and {last:.4g} at the end; there are no dev scores."
    return finding("healthy", verdict)


def learning_rate(record: TrainingRecord) -> Finding:
    """Signs in the training loss of a learning rate that is too low or too high."""
    losses = [loss for _, loss in record.loss]
    evidence = {"learning_rate": record.peak_learning_rate, "skipped_updates": record.skipped}
    finding = partial(Finding, "learning rate", evidence=evidence)
    if record.skipped:
        verdict = (
            f"{record.skipped} updates were skipped, because the gradient was not finite: {RATE} = "
            f"{record.peak_learning_rate:g} is too high. Divide it by 3, or set {CLIP} = 1."
        )
        return finding("problem", verdict, (RATE, CLIP))
    lowest, last = min(losses), recent(record.loss, 0.1)
    evidence |= {"lowest_loss": lowest, "last_loss": last}
    if len(losses) >= 4 and last > max(losses[0], 2 * lowest):
        verdict = (
            f"The training loss rises: {losses[0]:.4g} at first, {last:.4g} at the end. {RATE} = "
            f"{record.peak_learning_rate:g} is too high: divide it by 3."
        )
        return finding("problem", verdict, (RATE,))
    if flat := flat_loss(losses):
        norms = [norm for _, norm in record.gradient_norm]
        weak = bool(norms) and median(norms) < 1e-3
        cause = "gradients are tiny" if weak else f"{RATE} = {record.peak_learning_rate:g} is too low, or far too high"
        verdict = (
            f"The training loss does not fall ({flat[0]:.4g} at first, {flat[1]:.4g} at the end): {cause}. seqloom "
            "check CONFIG --learning-rate suggests a value."
        )
        return finding("problem", verdict, (RATE,))
    fall = _late_fall(losses)
    evidence["late_fall"] = fall
    rates = [rate for _, rate in record.learning_rate]
    decayed = bool(rates) and rates[-1] < 0.2 * max(rates)
    if fall > limit.STILL_FALLING:
        more = record.limit if not decayed else f"{record.limit}, or {RATE}"
        verdict = (
            f"The training loss was still falling when the training ended ({format_percent(fall)} in its last fifth): "
            f"raise {more}."
        )
        return finding("warning", verdict, (record.limit, RATE))
    verdict = f"The training loss shows no sign that {RATE} = {record.peak_learning_rate:g} is too high or too low."
    return finding("healthy", verdict)


def _late_fall(losses: list[float]) -> float:
    """The share by which the loss fell from the fifth before the last to the last one."""
    fifth = len(losses) // 5
    if fifth < 2:
        return 0.0
    before, after = fmean(losses[-2 * fifth : -fifth]), fmean(losses[-fifth:])
    return (before - after) / abs(before) if before else 0.0


def clipping(record: TrainingRecord) -> Finding:
    """How often gradients were clipped, and whether their norm has spikes."""
    norms = [norm for _, norm in record.gradient_norm]
    usual, largest = median(norms), max(norms)
    share = record.clipped_share
    evidence = {
        "clipped_share": share,
        "clip_norm": record.clip_norm,
        "median_norm": usual,
        "largest_norm": largest,
    }
    finding = partial(Finding, "clipping", evidence=evidence)
    if not record.clip_norm:
        if usual and largest > limit.SPIKE * usual:
            verdict = (
                f"The gradient norm has spikes ({format_number(largest, 3)}, usually {format_number(usual, 3)}) and "
                f"nothing limits them: set {CLIP} = {format_number(2 * usual, 1)}."
            )
            return finding("warning", verdict, (CLIP,))
        verdict = f"Gradients are not clipped, and their norm (usually {format_number(usual, 3)}) has no spikes."
        return finding("healthy", verdict)
    text = f"{format_percent(share)} of the updates were clipped to {record.clip_norm:g}"
    text += f"; logged norms before clipping: usually {format_number(usual, 3)}, at most {format_number(largest, 3)}"
    if usual > limit.EXPLODED * record.clip_norm:
        verdict = f"{text}: gradients explode. Lower {RATE}, and see the finding stability."
        return finding("problem", verdict, (RATE, CLIP))
    if share >= limit.OFTEN_CLIPPED and record.optimizer == "sgd":
        verdict = (
            f"{text}: {CLIP}, not {RATE}, sets the size of most updates. Raise {CLIP} to {format_number(2 * usual, 1)}"
            f", or lower {RATE}."
        )
        return finding("warning", verdict, (CLIP, RATE))
    if share >= limit.OFTEN_CLIPPED:
        text += ". Adam divides by the size of recent gradients, so that this hardly changes the updates"
    return finding("healthy", f"{text}.")


def gradient_norms(record: TrainingRecord) -> Finding:
    """Whether all groups of parameters get a gradient."""
    means = {name: fmean(norm for _, norm in points) for name, points in record.group_norms.items()}
    evidence = {"mean_norm": means}
    finding = partial(Finding, "gradient norms", evidence=evidence)
    weakest, strongest = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    if not means[weakest]:
        without = ", ".join(name for name, norm in means.items() if not norm)
        verdict = f"{without} got no gradient in the whole training: its weights were never changed."
        return finding("warning", verdict)
    ratio = means[strongest] / means[weakest]
    if ratio > limit.UNBALANCED:
        verdict = (
            f"The gradient of {strongest} is {format_number(ratio, 2)} times that of {weakest}, which hardly learns: "
            "look at the finding memory."
        )
        return finding("warning", verdict, (RATE,))
    verdict = (
        f"All groups of parameters get a gradient: from {format_number(means[weakest], 2)} ({weakest}) to "
        f"{format_number(means[strongest], 2)} ({strongest}) on average."
    )
    return finding("healthy", verdict)


def generalization(record: TrainingRecord) -> Finding:
    """Whether the dev loss follows the training loss."""
    best, last = min(record.dev_loss, key=lambda point: point[1]), record.dev_loss[-1]
    ratios = [dev / near for update, dev in record.dev_loss if (near := _loss_near(record, update)) > 0]
    growth = ratios[-1] / ratios[0] if len(ratios) > 1 and ratios[0] > 0 else math.nan
    evidence = {
        "best_dev_loss": best[1],
        "best_update": best[0],
        "last_dev_loss": last[1],
        "last_loss": recent(record.loss, 0.1),
        "gap_growth": growth,
    }
    finding = partial(Finding, "generalization", evidence=evidence)
    rises = best[1] > 0 and last[1] > limit.WORSE * best[1]
    falls = recent(record.loss, 0.1) < _loss_near(record, best[0])
    keys = ("train.patience", "train.weight_decay")
    if rises and falls:
        verdict = (
            f"The model overfits: the dev loss was lowest at update {best[0]:,} ({best[1]:.4g}) and rose to "
            f"{last[1]:.4g}, while the training loss fell. The best checkpoint is kept; more dropout, weight decay or "
            "data may improve it, and train.patience saves the time."
        )
        return finding("warning", verdict, keys)
    if growth > limit.LARGE_GAP:
        verdict = (
            f"The gap to the dev data widens: dev loss / training loss grew {format_number(growth, 2)}-fold during "
            "the training. More dropout, weight decay or data may help."
        )
        return finding("warning", verdict, keys[1:])
    verdict = f"The dev loss follows the training loss: {last[1]:.4g} at the end, {best[1]:.4g} at best."
    return finding("healthy", verdict)


def _loss_near(record: TrainingRecord, update: int) -> float:
    """The training loss at the log entry nearest to an update."""
    return min(record.loss, key=lambda point: abs(point[0] - update))[1]
