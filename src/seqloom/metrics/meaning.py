"""What a score means, in one sentence."""

import math
from collections.abc import Collection

SENTENCES = {
    "accuracy": "{percent} of the labels are right",
    "span_f1": "F1 of spans whose type and both ends are right; 1 is perfect",
    "macro_f1": "mean F1 over all labels; 1 is perfect",
    "exact_match": "{percent} of the outputs are entirely right",
    "perplexity": "as uncertain as a choice among {value} equally likely tokens",
    "bleu": "word n-grams shared with the references, from 0 to 100",
    "bleu_1": "words shared with the references, from 0 to 100",
    "bleu_lower": "word n-grams shared with the references, from 0 to 100, without case",
    "chrf": "character n-grams shared with the references, from 0 to 100",
    "cer": "{per_hundred} errors per 100 characters",
    "wer": "{per_hundred} errors per 100 words",
    "per": "{per_hundred} errors per 100 phones",
    "token_error_rate": "{per_hundred} errors per 100 tokens",
    "mse_scaled": "squared error in units of the variance: 0 is perfect, 1 is as good as the mean",
    "r2": "share of the variance that is explained: 1 is perfect, 0 is as good as the mean",
    "nll": "negative log-likelihood of a {element} in nats; lower is better",
    "loss": "negative log-likelihood per item in nats; lower is better",
    "spearman": "rank correlation with human judgements; 1 is perfect",
    "score": "accuracy of analogies, or rank correlation with human judgements; 1 is perfect",
}


ELEMENTS = ("point", "frame")
"""What a likelihood may be one of; scores count them by their plural."""


def meaning(name: str, value: float, scores: Collection[str] = ()) -> str:
    """What a value of a metric means, among scores of these names; empty if the metric is not known."""
    if not math.isfinite(value):
        return "not a finite number"
    element = next((word for word in ELEMENTS if f"{word}s" in scores), "step")
    return SENTENCES.get(name, "").format(
        percent=percent(value), value=f"{value:.3g}", per_hundred=f"{100 * value:.3g}", element=element
    )


UNBOUNDED = ("loss", "nll")
"""Metrics of which no value is perfect: those of densities can always be lower."""


def is_perfect(name: str, value: float, *, higher_is_better: bool) -> bool:
    """Whether no model can reach a better value of a metric."""
    if name in UNBOUNDED:
        return False
    if not higher_is_better:
        return value <= (1 if name == "perplexity" else 0)
    return value >= (100 if name.startswith(("bleu", "chrf")) else 1)


def percent(fraction: float) -> str:
    """A percentage with one digit, which is 0 or 100 only if the fraction is 0 or 1."""
    rounded = round(100 * fraction, 1)
    if rounded == 100 and fraction < 1:
        return "more than 99.9 %"
    if rounded == 0 and fraction > 0:
        return "less than 0.1 %"
    return f"{rounded:.1f} %"
