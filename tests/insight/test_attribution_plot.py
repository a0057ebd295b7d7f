"""Which inputs mattered, as text, HTML and plots."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from seqloom.insight.attribution import Attribution
from seqloom.insight.attribution_plot import attribution_html, attribution_lines, draw_attribution

TEXT = Attribution(
    method="integrated_gradients",
    target="<good>",
    tokens=["a", "<b>", "film"],
    values=[0.5, 2.0, -1.0],
    words=["a", "<b>", "film"],
    word_values=[0.5, 2.0, -1.0],
    score=2.0,
    baseline_score=0.5,
    steps=32,
)
VECTORS = replace(
    TEXT,
    method="occlusion",
    window=2,
    steps=0,
    channel_values=np.linspace(-1, 1, 300 * 3).reshape(300, 3).tolist(),
    values=np.linspace(-1, 1, 300).tolist(),
    signal=np.random.default_rng(1).normal(size=(300, 3)),
)


def test_bars_stand_on_words_that_raise_the_score_and_hang_from_others() -> None:
    heading, *lines, empty, remark = attribution_lines(TEXT)
    assert heading == "Which words mattered for <good> (integrated gradients, 32 steps):"
    assert lines == ["▂     ███", "a     <b>   film", "            ▀▀▀▀", "+0.50 +2.00 −1.00"]
    assert (empty, remark) == (
        "",
        "Log-odds of <good>: +2.00 (probability 88.1%); +0.50 (62.2%) if all inputs are zero vectors.",
    )
    name = replace(TEXT, tokens=list("Ana"), words=list("Ana"))
    assert next(iter(attribution_lines(name))).startswith("Which characters mattered for ")
    tagged = next(iter(attribution_lines(replace(TEXT, word="film", position=3))))
    assert tagged.startswith("Which words mattered for the label <good> of 'film', word 3 (")


def test_a_gap_is_shown_if_it_is_not_small() -> None:
    assert "Completeness" not in "".join(attribution_lines(replace(TEXT, gap=0.03)))
    *_, remark = attribution_lines(replace(TEXT, gap=0.35, score=2.35))
    assert remark == (
        "Completeness gap: the values add up to +1.50, the scores differ by +1.85 (10.0% of all contributions, after "
        "32 steps)."
    )


def test_channels_have_a_table_and_a_line_of_time() -> None:
    lines = list(attribution_lines(VECTORS, width=80))
    assert lines[0] == "Which channels and time steps mattered for <good> (occlusion in windows of 2 steps):"
    assert lines[1].split() == ["channel", "contribution", "strongest", "at"]
    assert lines[2].split() == ["1", "−0.83", "step", "1:", "−1.00"]  # a window counts once
    assert max(map(len, lines[:-1])) <= 85


def test_channels_have_their_names(tmp_path: Path) -> None:
    named = replace(VECTORS, channels=["ax", "<ay>", "$az$, in units of g"])
    assert [line.split("  ")[0] for line in list(attribution_lines(named))[2:5]] == ["ax", "<ay>", "$az$, in unit…"]
    assert ">&lt;ay&gt;</text>" in "".join(attribution_html(named))
    draw_attribution(named, tmp_path / "a.svg")
    assert "<!-- $az$, in unit… -->" in (tmp_path / "a.svg").read_text().replace("\\$", "$")


def test_html_shows_no_input_as_markup() -> None:
    page = "".join(attribution_html(TEXT))
    assert "&lt;b&gt;" in page
    assert "&lt;good&gt;" in page
    assert "<good>" not in page
    assert page.count("outline") == 0
    assert "".join(attribution_html(replace(TEXT, word="film", position=3))).count("outline") == 1
    heatmap = "".join(attribution_html(VECTORS))
    assert heatmap.count("<rect") == 3 * 100  # sums of three time steps


def test_plots(tmp_path: Path) -> None:
    for attribution in (TEXT, VECTORS, replace(VECTORS, word="5", position=5)):
        draw_attribution(attribution, tmp_path / "a.png", title="run: <good> $x$")
        assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
