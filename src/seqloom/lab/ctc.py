"""Whether CTC's output consists of spikes between blanks, and whether a lexicon and a language model cut its errors.

Recordings are generated like speech: a vocabulary of made-up words, many of which differ in one letter; sentences in
which each word has a few probable successors; for each letter a sound of varying duration that swells and fades, runs
into its neighbours and is covered by noise; and between words a pause. Few frames are silent, so most of them could
show a letter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from seqloom.data.batch import Batch, Padded, pad
from seqloom.decoding.frames.best_path import BestPath
from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.language_models import NGramLM
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.insight.plotting import COLOURS, GREY, panel_figure
from seqloom.lab.estimate import Estimate, conclude
from seqloom.lab.experiment import Experiment, Table, Trial, Verdict
from seqloom.lab.network import Network, fit
from seqloom.lab.panels import draw_dots, set_title
from seqloom.layers.build import recurrent
from seqloom.layers.ctc import ctc_loss
from seqloom.metrics.text import edit_distance
from seqloom.models.ngram.kneser_ney import estimate
from seqloom.tasks.task import Loss
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONSONANTS, VOWELS = "bdgklmnrst", "aeiou"
LETTERS = VOWELS + CONSONANTS
BLANK, SPACE = 0, 1
TOKENS = (" ", "·", *LETTERS)
"""The blank, the space between words, letters."""
FIRST_LETTER = 2
SUCCESSORS = 6
"""Probable next words of each word."""
LETTER_FRAMES, PAUSE_FRAMES = range(4, 11), range(2, 9)
"""Possible durations."""
BEST_PATH, LEXICON, LANGUAGE_MODEL = "best path", "lexicon", "lexicon and language model"
SEARCHES = (BEST_PATH, LEXICON, LANGUAGE_MODEL)
MOSTLY_BLANK = 0.5


@dataclass(frozen=True)
class Outcome:
    """One network with one search on new recordings."""

    search: str
    seed: int
    words: int  # in the references
    errors: int  # substitutions, insertions and deletions of words
    frames: int
    blanks: int  # frames in which the blank is the most probable token
    spike: float  # frames in a row in which a letter is the most probable token, on average
    duration: float  # frames of a letter, on average
    text: str  # of the example
    example: tuple[tuple[float, ...], ...] = ()  # probabilities of all tokens by frame; only with the first search


class Recordings(NamedTuple):
    """Generated recordings with their transcripts."""

    frames: Padded  # (B, T, D)
    sentences: list[list[int]]  # words
    letters: int  # letters and spaces in all of them


class World:
    """What is spoken and how it sounds: words, probable successors, and the vector of each letter."""

    def __init__(self, words: int, features: int, *, seed: int) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.spellings: list[tuple[int, ...]] = []
        while len(self.spellings) < words:
            length = int(torch.randint(2, 5, (), generator=draw))
            kinds = [VOWELS if at % 2 else CONSONANTS for at in range(length)]
            spelling = tuple(TOKENS.index(kind[int(torch.randint(len(kind), (), generator=draw))]) for kind in kinds)
            if spelling not in self.spellings:
                self.spellings.append(spelling)
        self.successors = torch.rand(words, words, generator=draw).topk(min(SUCCESSORS, words)).indices
        self.vectors = torch.randn(len(TOKENS), features, generator=draw)
        self.vectors[SPACE] = 0  # silence

    def sentences(self, count: int, draw: torch.Generator) -> list[list[int]]:
        """Three to six words each; after a word one of its successors, the first ones more often."""
        weights = 1 / torch.arange(1, self.successors.shape[1] + 1)
        result = []
        for length in torch.randint(3, 7, (count,), generator=draw).tolist():
            words = [int(torch.randint(len(self.spellings), (), generator=draw))]
            while len(words) < length:
                chosen = int(torch.multinomial(weights, 1, generator=draw))
                words.append(int(self.successors[words[-1], chosen]))
            result.append(words)
        return result

    def spell(self, words: Sequence[int]) -> list[int]:
        """The tokens of a sentence, with a space between words."""
        tokens: list[int] = []
        for word in words:
            tokens += ([SPACE] if tokens else []) + list(self.spellings[word])
        return tokens

    def record(self, sentences: Sequence[Sequence[int]], *, noise: float, draw: torch.Generator) -> Recordings:
        """Each letter swells and fades, and is blurred with its neighbours; words are separated by pauses."""
        rows, letters = [], 0
        for words in sentences:
            tokens = torch.tensor(self.spell(words))
            pauses, sounds = (
                torch.randint(frames.start, frames.stop, tokens.shape, generator=draw)
                for frames in (PAUSE_FRAMES, LETTER_FRAMES)
            )
            durations = torch.where(tokens == SPACE, pauses, sounds)
            frames = self.vectors[tokens.repeat_interleave(durations)] * loudness(durations).unsqueeze(1)
            frames = functional.avg_pool1d(frames.T, 3, stride=1, padding=1).T  # of a frame and its neighbours
            rows.append(frames + noise * torch.randn(frames.shape, generator=draw))
            letters += len(tokens)
        return Recordings(pad(rows), [list(words) for words in sentences], letters)


def loudness(durations: Tensor) -> Tensor:  # (letters,) → (frames,)
    """Half a period of a sine for each letter."""
    return torch.cat([torch.sin(torch.pi * (torch.arange(count) + 0.5) / count) for count in durations.tolist()])


class Ctc(Experiment):
    """A network trained with CTC, and three searches over its frames."""

    topic: ClassVar[str] = "Transcription"
    question: ClassVar[str] = "What does the output of CTC look like, and what do a lexicon and a language model add?"
    claim: ClassVar[str] = (
        "A network trained with CTC shows each letter as a spike between blanks; a lexicon cuts its errors, and a "
        "language model cuts them further."
    )
    source: ClassVar[str] = (
        "Graves et al. 2006; Graves & Jaitly 2014; Hannun et al. 2014; lectures on sequence modelling"
    )
    rule: ClassVar[str] = (
        "The claim holds if the blank is the most probable token in more than half of the frames of new recordings, if "
        "the word errors of the search with the lexicon divided by those of the best path are below 1, and so are "
        "those with lexicon and language model divided by those with the lexicon (geometric means over seeds), all "
        "with the whole 95 % interval; it does not hold if one of the intervals lies on the other side. The weight of "
        "the language model is 1, and nothing is tuned."
    )
    quick: ClassVar[Mapping[str, Any]] = {
        "seeds": 2, "words": 5, "hidden_size": 4, "updates": 3, "batch_size": 2, "recordings": 3, "lm_sentences": 20,
    }  # fmt: skip
    thorough: ClassVar[Mapping[str, Any]] = {"seeds": 5, "recordings": 200}
    row: ClassVar[type[Any]] = Outcome

    seeds: int = Field(3, ge=1, description="Repetitions, each with other words, recordings and weights.")
    words: int = Field(200, ge=2, le=2000, description="Words of the vocabulary.")
    features: int = Field(12, ge=1, description="Features of a frame.")
    noise: float = Field(0.8, ge=0, description="Standard deviation of the noise; that of the letters is 1.")
    hidden_size: int = Field(32, ge=1, description="Units of the LSTM in each direction.")
    batch_size: int = Field(16, ge=1, description="Recordings per update.")
    updates: int = Field(600, ge=1, description="Updates of each training.")
    learning_rate: float = Field(1e-2, gt=0, description="Peak learning rate of Adam; it falls along a cosine.")
    recordings: int = Field(100, ge=1, description="New recordings that are transcribed.")
    lm_sentences: int = Field(1000, ge=1, description="Sentences from which the bigram model of words is estimated.")
    beam_size: int = Field(32, ge=1, description="Prefixes kept at each frame by the searches with a lexicon.")

    def trials(self) -> list[Trial]:
        return [Trial(f"seed {seed}", partial(self._measure, seed)) for seed in self.all_seeds]

    def _measure(self, seed: int) -> list[Outcome]:
        world = World(self.words, self.features, seed=seed)
        draw = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed)
        layer = recurrent("lstm", self.features, self.hidden_size, bidirectional=True)
        network = Network(layer, len(TOKENS))

        def sample() -> Batch:
            frames, sentences, letters = world.record(
                world.sentences(self.batch_size, draw), noise=self.noise, draw=draw
            )
            return Batch(frames, tuple(torch.tensor(world.spell(words)) for words in sentences), items=letters)

        settings = TrainConfig(updates=self.updates, learning_rate=self.learning_rate)
        fit(network, sample, settings, loss=_ctc_loss)
        new = world.record(world.sentences(self.recordings, draw), noise=self.noise, draw=draw)
        with torch.no_grad():
            log_probabilities = _log_probabilities(network, new.frames)
        lengths = new.frames.mask.sum(dim=1)
        best = [row[:length].argmax(-1).tolist() for row, length in zip(log_probabilities, lengths, strict=True)]
        runs = [run for row in best for run in spikes(row)]
        guides = self.guides(world, draw)
        rows = []
        for search, guide in guides.items():
            outputs = transcribe(log_probabilities, lengths, guide, beam_size=self.beam_size)
            references = [[world.spellings[word] for word in words] for words in new.sentences]
            errors = sum(edit_distance(*pair) for pair in zip(outputs, references, strict=True))
            example = log_probabilities[0, : lengths[0]].exp() if search == BEST_PATH else torch.zeros(0, 0)
            rows.append(
                Outcome(
                    search,
                    seed,
                    sum(map(len, references)),
                    errors,
                    int(lengths.sum()),
                    sum(token == BLANK for row in best for token in row),
                    fmean(runs) if runs else 0.0,
                    int(lengths.sum()) / new.letters,
                    "".join(TOKENS[token] for token in world.spell(new.sentences[0])),
                    tuple(tuple(round(value, 4) for value in frame) for frame in example.tolist()),
                )
            )
        return rows

    def guides(self, world: World, draw: torch.Generator) -> dict[str, Guide | None]:
        """What each search knows besides the frames."""
        spellings = [(str(word), spelling) for word, spelling in enumerate(world.spellings)]
        lexicon = Lexicon(spellings, separator=SPACE)
        count = len(world.spellings)
        model = estimate(
            world.sentences(self.lm_sentences, draw), order=2, start=count, end=count + 1, vocabulary=count + 2
        )
        language_model = NGramLM(model, vocabulary_ids=range(count))
        return {BEST_PATH: None, LEXICON: Guide(lexicon), LANGUAGE_MODEL: Guide(lexicon, language_model)}

    def verdict(self, rows: Sequence[Outcome]) -> Verdict:
        first = [row for row in rows if row.search == BEST_PATH]
        blanks = Estimate.of_mean([row.blanks / row.frames for row in first])
        lexicon, language_model = (
            Estimate.of_geometric_mean(error_ratios(rows, better, worse))
            for better, worse in ((LEXICON, BEST_PATH), (LANGUAGE_MODEL, LEXICON))
        )
        rates = ", ".join(
            f"{fmean(row.errors / row.words for row in rows if row.search == search):.1%} ({search})"
            for search in SEARCHES
        )
        return Verdict(
            conclude(blanks.is_above(MOSTLY_BLANK), lexicon.is_below(1), language_model.is_below(1)),
            f"The blank is the most probable token in {blanks.format(percent=True)} of the frames; a letter is so for "
            f"{fmean(row.spike for row in first):.1f} frames in a row, though it lasts for "
            f"{fmean(row.duration for row in first):.1f}. Word error rates: {rates}. The lexicon leaves "
            f"{lexicon.format()} times as many errors as the best path, the language model {language_model.format()} "
            "times as many as the lexicon alone.",
            {"frames with a blank": blanks, "lexicon / best path": lexicon, "language model / lexicon": language_model},
        )

    def table(self, rows: Sequence[Outcome]) -> Table:
        cells = []
        for search in SEARCHES:
            rates = [row.errors / row.words for row in rows if row.search == search]
            cells.append([search, Estimate.of_mean(rates).format(percent=True)])
        return ["search", "word error rate"], cells

    def draw(self, rows: Sequence[Outcome]) -> "Figure":
        figure = panel_figure(2, width=6.2, height=3.9)
        frame_panel, error_panel = figure.axes
        example = next(row for row in rows if row.example)
        draw_spikes(frame_panel, example)
        set_title(frame_panel, f"Probabilities by frame: “{example.text}”")
        rates = {
            search.replace(" and ", "\nand "): [100 * row.errors / row.words for row in rows if row.search == search]
            for search in SEARCHES
        }
        draw_dots(error_panel, rates)
        error_panel.set_xlabel("word error rate, %")
        error_panel.set_xlim(0, None)
        set_title(error_panel, "Errors of each seed")
        return figure


def draw_spikes(axes: Any, example: Outcome) -> None:
    """The probability of each token over time; the blank is dashed, and spikes have the names of their letters."""
    probabilities = torch.tensor(example.example)
    xs = range(1, len(probabilities) + 1)
    axes.plot(xs, probabilities[:, BLANK], color=GREY, linestyle="--", linewidth=1.2, label="blank")
    for token in range(1, len(TOKENS)):
        values = probabilities[:, token]
        if values.max() < 0.2:
            continue
        colour = COLOURS[token % len(COLOURS)]
        axes.plot(xs, values, color=colour, linewidth=1.4)
        peaks = (values > 0.4) & (values >= values.roll(1)) & (values > values.roll(-1))
        for at in peaks.nonzero()[:, 0].tolist():
            axes.annotate(
                TOKENS[token], (at + 1, float(values[at])), xytext=(0, 2), textcoords="offset points", ha="center",
                fontsize=8, color=colour,
            )  # fmt: skip
    axes.set(xlabel="frame", ylabel="probability", ylim=(0, 1.12))
    axes.legend(frameon=False, fontsize=8, loc="upper right", bbox_to_anchor=(1, 1.0))


def spikes(tokens: Sequence[int]) -> list[int]:
    """The lengths of runs of one token other than the blank."""
    runs: list[int] = []
    before = BLANK
    for token in tokens:
        if token != BLANK:
            if token == before:
                runs[-1] += 1
            else:
                runs.append(1)
        before = token
    return runs


def transcribe(
    log_probabilities: Tensor,  # (B, T, V)
    lengths: Tensor,  # (B,)
    guide: Guide | None,  # None: best path
    *,
    beam_size: int,
) -> list[list[tuple[int, ...]]]:
    """The words of each recording as tuples of tokens."""
    search = BestPath() if guide is None else PrefixBeam(size=beam_size)
    nbest = search(log_probabilities, lengths, blank=BLANK, guide=guide)
    return [split_words(transcripts[0].tokens if transcripts else []) for transcripts in nbest]


def split_words(tokens: Sequence[int]) -> list[tuple[int, ...]]:
    """The letters between spaces."""
    words: list[list[int]] = [[]]
    for token in tokens:
        if token == SPACE:
            words.append([])
        else:
            words[-1].append(token)
    return [tuple(word) for word in words if word]


def error_ratios(rows: Sequence[Outcome], better: str, worse: str) -> list[float]:
    """The errors of one search divided by those of another, by seed; none counts as half an error."""
    errors = {(row.search, row.seed): max(row.errors, 0.5) for row in rows}
    return [errors[better, seed] / errors[worse, seed] for seed in sorted({row.seed for row in rows})]


def _log_probabilities(network: Network, frames: Padded) -> Tensor:  # (B, T, V)
    logits: Tensor = network.output(network.layer(frames.values, frames.mask)[0])
    return logits.log_softmax(dim=-1)


def _ctc_loss(network: Any, batch: Batch) -> Loss:
    """The negative log-probability of the transcripts, summed over all alignments."""
    logits = network.output(network.layer(*batch.inputs)[0])
    losses = ctc_loss(logits, batch.inputs.mask.sum(dim=1), batch.target, blank=BLANK).losses
    return Loss(losses.sum(), batch.items)
