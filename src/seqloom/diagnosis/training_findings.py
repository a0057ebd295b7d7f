"""Findings about a training: whether it learned, its learning rate, clipping, gradient norms, and overfitting."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean, median

from seqloom.diagnosis import thresholds as limit
from seqloom.diagnosis.diagnosis import Finding
from seqloom.diagnosis.findings import by_severity
from seqloom.diagnosis.training_record import SKIPPED_IN_A_ROW, TrainingRecord, recent
from seqloom.formats import format_number, percent_in_text
from seqloom.metrics.learning import flat_loss, overfit_since

RATE, CLIP = "train.learning_rate", "train.clip_norm"
OF_GRADIENTS = ("memory", "stability")
"""Findings about the gradients of a part: a training that has failed shows that they are not healthy."""


def with_training_findings(
    measured: Sequence[Finding],  # in the model
    record: TrainingRecord | None,
    baseline: Mapping[str, float],  # scores of a trivial model
) -> list[Finding]:
    """All findings about a run, the most serious first; those of the model and of its training never disagree."""
    if record is None:
        return by_severity(measured)
    failed = failure(record, baseline)
    if failed:
        measured = [each for each in measured if each.severity != "healthy" or each.name not in OF_GRADIENTS]
    return by_severity([*measured, *_of_training(record, baseline, measured, failed)])


def _of_training(
    record: TrainingRecord, baseline: Mapping[str, float], measured: Sequence[Finding], failed: str
) -> Iterator[Finding]:
    """The findings about a training. After a failure, no loss and no gradient is called healthy."""
    too_high = bool(failed) or any(each.learning_rate == "lower" for each in measured)
    clipped = [clipping(record, too_high=too_high)] if record.gradient_norm else []
    lower = [each.title for each in (*measured, *clipped) if each.learning_rate == "lower"]
    findings = [learning(record, baseline.get(record.metric, math.nan), failed=bool(failed))] if record.loss else []
    findings += [learning_rate(record, failed, lower), *clipped]
    if record.group_norms:
        findings.append(gradient_norms(record))
    if len(record.dev_loss) > 1 and record.loss:
        findings.append(generalization(record))
    for finding in findings:
        if not failed or finding.severity != "healthy" or (finding.name == "learning" and record.score):
            yield finding


def failure(record: TrainingRecord, baseline: Mapping[str, float]) -> str:
    """How the record shows that the learning rate is too high; empty: it does not."""
    if record.diverged:
        in_a_row = SKIPPED_IN_A_ROW.search(record.diverged)
        more = in_a_row is not None and record.skipped > int(in_a_row["count"])
        return f"Training diverged: {record.diverged}{f'; {record.skipped:,} were skipped in all' if more else ''}."
    if record.skipped:
        were = "update was" if record.skipped == 1 else "updates were"
        return f"{record.skipped:,} {were} skipped, because the gradient was not finite."
    if not record.loss:
        return ""
    losses = [loss for _, loss in record.loss]
    last = recent(record.loss, 0.1)
    trivial = baseline.get("loss", math.nan)
    absurd = min(limit.FAR_ABOVE * trivial, limit.ABSURD) if trivial > 0 else limit.ABSURD
    if last >= losses[0] and last > absurd:
        usual = f", {trivial:.4g} for the trivial baseline" if trivial > 0 else ""
        return f"The training loss is absurd: {losses[0]:.4g} at first, {last:.4g} at the end{usual}."
    if len(losses) >= 4 and last > max(losses[0], 2 * min(losses)):
        return f"The training loss rises: {losses[0]:.4g} at first, {last:.4g} at the end."
    times = record.peak_learning_rate / record.default_learning_rate if record.default_learning_rate else 0.0
    if times > limit.FAR_TOO_HIGH and _learned_nothing(record, baseline.get(record.metric, math.nan)):
        return f"The model has learned nothing (training loss {last:.4g} at the end)."
    return ""


def _best_score(record: TrainingRecord) -> float:
    return (max if record.higher_is_better else min)(value for _, value in record.score)


def _learned_nothing(record: TrainingRecord, baseline: float) -> bool:
    """Whether dev scores are no better than those of a trivial model."""
    if not record.score or record.degenerate:
        return bool(record.score)
    best = _best_score(record)
    return best <= baseline if record.higher_is_better else best >= baseline


def learning(record: TrainingRecord, baseline: float, *, failed: bool = False) -> Finding:
    """Whether the model is better than the trivial one."""
    first, last = recent(record.loss[:1], 1.0), recent(record.loss, 0.1)
    evidence = {"first_loss": first, "last_loss": last, "updates": record.updates, "baseline": baseline}
    finding = partial(Finding, "learning", evidence=evidence)
    if record.score:
        best = _best_score(record)
        evidence["best_score"] = best
        few = record.updates < limit.FEW_UPDATES
        where = "the finding learning rate" if failed or few else "the other findings"
        keys = (record.limit,) if few and not failed else (RATE, record.limit)
        if record.degenerate:
            verdict = (
                f"{record.degenerate}: the model has learned nothing ({record.metric} {format_number(best, 4)}). See "
                f"{where} for the reason; {record.remedies.find_learning_rate} suggests a {RATE}."
            )
            return finding("problem", verdict, keys)
        if _learned_nothing(record, baseline):
            verdict = (
                f"The model has learned nothing that the trivial baseline does not know: {record.metric} "
                f"{format_number(best, 4)} at best, baseline {format_number(baseline, 4)}. See {where} for "
                f"the reason; {record.remedies.find_learning_rate} suggests a {RATE}."
            )
            return finding("problem", verdict, keys)
        score = f"{record.metric} {format_number(best, 4)}"
        trivial = "" if math.isnan(baseline) else f" (baseline {format_number(baseline, 4)})"
        several = len(record.loss) > 1  # a short training may have logged a single loss, which says nothing
        if several and last > (1 - limit.LITTLE) * first:
            change = "fell" if last < first else "went"
            verdict = (
                f"The model has learned little: the training loss {change} from {first:.4g} to {last:.4g}; {score}"
                f"{trivial}. See {where} for the reason."
            )
            return finding("warning", verdict, keys)
        losses = (
            f", training loss {first:.4g} at first, {last:.4g} at the end" if several else f", training loss {last:.4g}"
        )
        verdict = f"The model learns: {score}{trivial}{'' if failed else losses}."
        return finding("healthy", verdict)
    verdict = f"The training loss is {first:.4g} at first and {last:.4g} at the end; there are no dev scores."
    return finding("healthy", verdict)


def learning_rate(record: TrainingRecord, failed: str = "", lower: Sequence[str] = ()) -> Finding:
    """Whether the learning rate is too low or too high; the only finding that may ask for a higher one.

    ``failed``: as ``failure`` says; ``lower``: titles of other findings that ask for a lower learning rate.
    """
    rate = f"{RATE} = {record.peak_learning_rate:g}"
    losses = [loss for _, loss in record.loss]
    evidence = {"learning_rate": record.peak_learning_rate, "skipped_updates": record.skipped}
    finding = partial(Finding, "learning rate", evidence=evidence)
    if losses:
        evidence |= {"lowest_loss": min(losses), "last_loss": recent(record.loss, 0.1)}
    if failed:
        keys = (RATE,) if record.clip_norm else (RATE, CLIP)
        return finding("problem", f"{failed} {rate} is too high. {_lower_rate(record)}", keys, learning_rate="lower")
    if record.updates < limit.FEW_UPDATES and not lower:
        made = "1 update" if record.updates == 1 else f"{record.updates:,} updates"
        verdict = f"The training made {made}, too few to learn much, or to judge {RATE}: raise {record.limit}."
        return finding("warning", verdict, (record.limit,))
    see = f"see the finding{'s' if len(lower) > 1 else ''} {', '.join(lower)}"
    if flat := flat_loss(losses):
        norms = [norm for _, norm in record.gradient_norm]
        weak = bool(norms) and median(norms) < 1e-3
        cause = "gradients are tiny" if weak else f"{rate} is too low, or far too high"
        if lower:
            cause = f"{rate} is too high, {see}"
        verdict = (
            f"The training loss does not fall ({flat[0]:.4g} at first, {flat[1]:.4g} at the end): {cause}. "
            f"{record.remedies.find_learning_rate} suggests a value."
        )
        return finding("problem", verdict, (RATE,), learning_rate="lower" if lower else "")
    fall = _late_fall(losses)
    evidence["late_fall"] = fall
    rates = [rate for _, rate in record.learning_rate]
    decayed = bool(rates) and rates[-1] < 0.2 * max(rates)
    higher = record.higher_is_better
    dev, score, curve = (record.dev_loss, record.score, "loss") if higher else (record.score, [], record.metric)
    if fall > limit.STILL_FALLING and (since := overfit_since(dev, record.loss, score=score)) is not None:
        verdict = (
            f"The training loss was still falling when the training ended, but the dev {curve} has risen since update "
            f"{since:,.0f}: longer training does not help."
        )
        return finding("healthy", verdict)
    if fall > limit.STILL_FALLING:
        faster = decayed and not lower
        more = f"{record.limit}, or {RATE}" if faster else record.limit
        verdict = (
            f"The training loss was still falling when the training ended ({percent_in_text(fall)} in its last fifth): "
            f"raise {more}."
        )
        keys = (record.limit, RATE) if faster else (record.limit,)
        return finding("warning", verdict, keys, learning_rate="raise" if faster else "")
    if lower:
        return finding("healthy", f"The training loss falls with {rate}; whether a lower one is better, {see}.")
    return finding("healthy", f"The training loss shows no sign that {rate} is too high or too low.")


def _lower_rate(record: TrainingRecord) -> str:
    """Which learning rate to try: a third, or the default if that is far below."""
    rate, default = record.peak_learning_rate, record.default_learning_rate
    if default and rate > limit.FAR_ABOVE * default:
        value = f"{default:g}, {'usual for SGD' if record.optimizer == 'sgd' else 'the default'}"
    else:
        value = f"{rate / 3:.2g}, a third of it"
    clip = "" if record.clip_norm else f", with {CLIP} = 1"
    return f"Try {RATE} = {value}{clip}; {record.remedies.find_learning_rate} suggests a value."


def _late_fall(losses: list[float]) -> float:
    """The share by which the loss fell from the fifth before the last to the last one."""
    fifth = len(losses) // 5
    if fifth < 2:
        return 0.0
    before, after = fmean(losses[-2 * fifth : -fifth]), fmean(losses[-fifth:])
    return (before - after) / abs(before) if before else 0.0


def clipping(record: TrainingRecord, *, too_high: bool = False) -> Finding:
    """How often gradients were clipped, and whether their norm has spikes.

    ``too_high``: other findings say so of the learning rate; then larger updates are no remedy.
    """
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
        if usual > limit.ABSURD:
            verdict = (
                f"Gradients explode: their norm is usually {usual:.3g}, and nothing limits it. Lower {RATE}, and set "
                f"{CLIP} = 1."
            )
            return finding("problem", verdict, (RATE, CLIP), learning_rate="lower")
        if usual and largest > limit.SPIKE * usual:
            verdict = (
                f"The gradient norm has spikes ({format_number(largest, 3)}, usually {format_number(usual, 3)}) and "
                f"nothing limits them: set {CLIP} = {'1' if too_high else format_number(2 * usual, 1)}."
            )
            return finding("warning", verdict, (CLIP,))
        verdict = f"Gradients are not clipped, and their norm (usually {format_number(usual, 3)}) has no spikes."
        return finding("healthy", verdict)
    text = f"{percent_in_text(share)} of all updates were clipped to {record.clip_norm:g}"
    text += f"; in the {len(norms):,} updates whose norm is logged it was usually {format_number(usual, 3)}"
    if largest > record.clip_norm or not share:  # otherwise the updates that were clipped are not among them
        text += f" before clipping, at most {format_number(largest, 3)}"
    if usual > limit.EXPLODED * record.clip_norm:
        verdict = f"{text}: gradients explode. Lower {RATE}, and see the finding stability."
        return finding("problem", verdict, (RATE, CLIP), learning_rate="lower")
    if share >= limit.OFTEN_CLIPPED and record.optimizer == "sgd":
        advice = f"Lower {RATE}" if too_high else f"Raise {CLIP} to {format_number(2 * usual, 1)}"
        verdict = f"{text}: {CLIP}, not {RATE}, sets the size of most updates. {advice}."
        keys = (RATE,) if too_high else (CLIP,)
        return finding("warning", verdict, keys, learning_rate="lower" if too_high else "")
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
        entries = max(len(points) for points in record.group_norms.values())
        verdict = (
            f"{without} got no gradient in any of the {entries:,} updates that were logged: its weights do not change."
            if entries > 1
            else f"{without} got no gradient in the only update that was logged."
        )
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
