"""An explanation in a notebook: probabilities as bars, coloured words, attention, gates, the search."""

from collections.abc import Iterator

from seqloom import html
from seqloom.formats import format_percent, shorten
from seqloom.insight.attribution_plot import attribution_html
from seqloom.insight.explanation import Explanation
from seqloom.insight.explanation_pictures import beam_html, frames_html, gates_html, heads_html, regions_html
from seqloom.insight.frame_strip import png_address
from seqloom.insight.token_names import show_whitespace

SHOWN_CANDIDATES = 5
MAX_CELLS = 2500  # of a table of attention
MAX_PICTURES = 48  # frames of a video
MAX_SOURCE = 2000  # characters of the text that is explained


PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 14px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }}
h1 {{ font-size: 20px; margin: 0 0 .4em; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def explanation_page(explanation: Explanation) -> str:
    """An explanation as a page of its own."""
    name = explanation.run or explanation.task
    title = ": ".join(filter(None, (name, shorten(explanation.title or explanation.origin or explanation.source, 60))))
    task = f" ({explanation.task})" if explanation.task != name else ""
    heading = f"<h1>Explanation of a prediction of {html.escape(name)}{html.escape(task)}</h1>"
    parts = html.block(html.pairs(_facts(explanation)), *_parts(explanation))
    return PAGE.format(title=html.escape(title), body=heading + parts)


def _facts(explanation: Explanation) -> dict[str, object]:
    """What was explained, and what was predicted."""
    predicted = explanation.title or explanation.headline.partition("\n")[0]
    is_place = explanation.source == explanation.origin.replace(", line ", ":")
    text = "" if is_place else shorten(explanation.source, MAX_SOURCE)
    facts = {"file": explanation.origin, "text": text, "predicted": predicted}
    return {name: text for name, text in facts.items() if text}


def explanation_html(explanation: Explanation) -> str:
    """The parts of an explanation that a notebook shows."""
    title = explanation.title or explanation.headline.partition("\n")[0] or str(explanation.prediction)
    shown = explanation.token_values or explanation.attribution
    source = html.remark(explanation.source) if explanation.source and not shown else ""
    return html.block(html.heading(shorten(title, 120)), source, *_parts(explanation))


def _parts(explanation: Explanation) -> Iterator[str]:
    if attribution := explanation.attribution:
        yield from attribution_html(attribution)
    if values := explanation.token_values:
        words = [show_whitespace(token) for token in values.tokens]
        yield html.coloured_words(words, values.values, maximum=values.maximum) + "<br>" + html.remark(values.label)
    if explanation.label_probabilities:
        yield html.table(
            (explanation.label_kind, "probability"),
            [
                (html.escape(label), html.bar(probability, format_percent(probability, 1)))
                for label, probability in explanation.shown_labels.items()
            ],
        )
        if explanation.other_labels:
            yield html.remark(explanation.other_labels)
    if explanation.label_choices:
        yield html.table(
            ("word", "label", "probability", "alternative", ""),
            [
                (
                    *(html.escape(text) for text in (choice.word, choice.label)),
                    html.bar(choice.probability, format_percent(choice.probability, 1)),
                    html.escape(choice.alternative),
                    html.remark(format_percent(choice.alternative_probability, 1)),
                )
                for choice in explanation.label_choices
            ],
        )
    nbest = getattr(explanation.prediction, "nbest", None) or []
    if len(nbest) > 1:
        yield html.table(
            ("n-best list", "score"),
            [(html.escape(candidate.text), f"{candidate.score:.4f}") for candidate in nbest[:SHOWN_CANDIDATES]],
            right=[1],
        )
    attention = explanation.attention
    if attention is not None and explanation.grid is None and len(attention.rows) * len(attention.columns) <= MAX_CELLS:
        rows, columns = (list(map(show_whitespace, names)) for names in (attention.rows, attention.columns))
        pictures = _frames(explanation)
        yield html.heatmap(rows, columns, attention.weights, pictures=pictures) + html.remark(attention.name)
    yield from regions_html(explanation)
    if explanation.frames is not None:
        yield frames_html(explanation.frames)
    if len(explanation.heads) > 1:
        yield from heads_html(explanation.heads)
    if explanation.beam:
        yield beam_html(explanation.beam)
    yield from gates_html(explanation.gates)
    for note in explanation.notes:
        yield html.remark(note)


def _frames(explanation: Explanation) -> list[str]:
    """The frames of a short video as pictures."""
    image = explanation.image
    if image is None or image.ndim != 4 or len(image) > MAX_PICTURES:
        return []
    return [png_address(frame) for frame in image]
