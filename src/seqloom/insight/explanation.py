"""An explanation of a prediction as data: attention, the search, probabilities of tokens, labels and frames."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from seqloom import terminal
from seqloom.formats import format_percent
from seqloom.insight.attribution import Attribution
from seqloom.insight.beam_tree import BeamNode
from seqloom.insight.ctc_plot import FrameProbabilities
from seqloom.insight.embedding_map import EmbeddingMap
from seqloom.insight.gates import LabelledTrace
from seqloom.insight.label_paths import LabelPaths
from seqloom.insight.prefix_tree import PrefixChoice
from seqloom.insight.word_contexts import ContextPair, layer_names
from seqloom.layers.scalar_mix import ScalarMix
from seqloom.models.sentence_vectors import NearSentence

SHOWN_LABELS = 8  # of a classifier, in a table


ALIGNMENT = "alignment"
"""The name of a map of the probabilities that each row belongs to each column."""


@dataclass(frozen=True)
class AttentionMap:
    """How much each row attends to each column, or belongs to it."""

    name: str  # layer and head, or ALIGNMENT
    rows: list[str]
    columns: list[str]
    weights: list[list[float]]  # each row sums to one, or to zero where there was nothing to attend to


@dataclass(frozen=True)
class TokenValues:
    """A number for each token of the input."""

    label: str  # what the numbers are
    tokens: list[str]
    values: list[float]  # not negative
    maximum: float  # possible value; 0: unbounded
    expected: list[list[tuple[str, float]]] = field(default_factory=list)
    """Of a language model, the most probable tokens at each place, with their probabilities."""


@dataclass(frozen=True)
class LabelChoice:
    """The label of a word and the most probable alternative."""

    word: str
    label: str
    probability: float
    alternative: str
    alternative_probability: float


@dataclass(frozen=True)
class LayerWeights:
    """The weight of each layer of a language model in the vectors that a task takes from it."""

    layers: list[str]
    weights: list[float]  # they sum to one
    scale: float


@dataclass(frozen=True, repr=False)
class Explanation:
    """A prediction and what led to it. A notebook shows it; ``print_explanation`` prints it."""

    task: str
    source: str
    prediction: Any  # as ``predict`` returns it
    run: str = ""  # name of the model
    origin: str = ""  # where the input was read: its file and its id or line; empty: it was given directly
    headline: str = ""  # printed first
    title: str = ""  # of the plots
    nbest_tokens: list[list[str]] = field(default_factory=list)  # of each of prediction.nbest, the end included
    attention: AttentionMap | None = None  # of the last layer, averaged over its heads
    heads: list[AttentionMap] = field(default_factory=list)  # each layer and head, if requested
    token_values: TokenValues | None = None
    attribution: Attribution | None = None  # which inputs mattered, of classifiers and taggers
    label_choices: list[LabelChoice] = field(default_factory=list)  # of taggers
    label_probabilities: dict[str, float] = field(default_factory=dict)  # of classifiers, the most probable first
    label_kind: str = "label"  # what these are, such as tokens that fill a mask
    label_count: int = 0  # of all labels, where only the most probable ones are given; 0: all are
    beam: list[BeamNode] = field(default_factory=list)  # if requested, parents before their children
    prefixes: list[PrefixChoice] = field(default_factory=list)  # CTC, if requested: the beam in each frame
    paths: LabelPaths | None = None  # CTC, if requested: alignments of a text
    layer_weights: LayerWeights | None = None
    contexts: list[ContextPair] = field(default_factory=list)  # of words that occur more than once
    nearest: list[NearSentence] = field(default_factory=list)  # if requested, the most similar first
    frames: FrameProbabilities | None = None  # of transcripts
    embedding_map: EmbeddingMap | None = None
    notes: list[str] = field(default_factory=list)
    gates: list[LabelledTrace] = field(default_factory=list, repr=False)  # of each recurrent layer, if requested
    grid: tuple[int, int] | None = None  # the columns of the attention are these rows and columns of the image
    image: NDArray[Any] | None = field(default=None, repr=False)  # (H, W, 3), a video (T, H, W, 3), or frames (T, D)

    def __repr__(self) -> str:
        text = self.title or self.headline.partition("\n")[0] or str(self.prediction).strip()
        return f"<Explanation: {self.task}, {text}>"

    @property
    def shown_labels(self) -> dict[str, float]:
        """The most probable labels, as many as a table shows."""
        return dict(list(self.label_probabilities.items())[:SHOWN_LABELS])

    @property
    def other_labels(self) -> str:
        """How many labels such a table leaves out, and how probable they are; empty: none."""
        shown, given = self.shown_labels.values(), self.label_probabilities.values()
        count = (self.label_count or len(given)) - len(shown)
        if not given or not count:
            return ""
        probability = (1.0 if self.label_count else sum(given)) - sum(shown)
        labels = f"{count:,} more {self.label_kind}{'s' if count > 1 else ''}"
        return f"and {labels}, with {format_percent(probability, 2)}{' in all' if count > 1 else ''}"

    def _repr_html_(self) -> str:
        from seqloom.insight.explanation_html import explanation_html

        return explanation_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything but images, signals and gates as lists, numbers and strings."""
        values = asdict(replace(self, gates=[], image=None))
        for name in ("image", "gates", "headline", "title", "run", "origin"):
            del values[name]
        if self.attribution is not None:
            del values["attribution"]["signal"], values["attribution"]["pictures"]
        return values

    def to_json(self) -> str:
        """The same as JSON."""
        return terminal.json_line(self.to_dict())

    def to_html(self) -> str:
        """A page that needs no other files and follows the light or dark colours of the browser."""
        from seqloom.insight.explanation_html import explanation_page

        return explanation_page(self)

    @property
    def image_attention(self) -> NDArray[np.float64]:  # (T, rows, columns)
        """Attention over the regions of the image, for each generated word."""
        if self.attention is None or self.grid is None:
            raise ValueError("this explanation has no attention over an image")
        return np.array(self.attention.weights).reshape(-1, *self.grid)


def layer_weights(model: nn.Module) -> LayerWeights | None:
    """How a model mixes the layers of its pretrained language model; None if it has none."""
    for part in model.modules():
        if isinstance(part, ScalarMix):
            weights = part.layer_weights.tolist()
            return LayerWeights(layer_names(len(weights)), weights, float(part.scale))
    return None
