"""What a classifier reads of an example: the tokens of texts and pairs, or the steps of signals."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.data.readers.labelled import LabelledSequence
from seqloom.data.readers.media import Signal, kind_of
from seqloom.data.readers.text_files import DataError
from seqloom.data.readers.text_pairs import SEPARATOR, TYPED_SEPARATOR, split_pair
from seqloom.insight.token_names import text_tokens
from seqloom.models.signals.frame_encoder import TimeReductionConfig
from seqloom.models.signals.inputs import SignalInputs
from seqloom.models.signals.statistics import LocatedSignal, describe
from seqloom.tasks.classify.pairs import BETWEEN
from seqloom.tasks.classify.settings import ClassifySettings, Learned
from seqloom.tasks.task import require_fitted


class ClassifyInputs(ClassifySettings):
    """The part of the task classify that knows what its inputs are."""

    @property
    def fitted(self) -> Learned:
        return require_fitted(self.learned)

    @property
    def _inputs(self) -> SignalInputs:
        """What is done with signals."""
        return SignalInputs(require_fitted(self.fitted.signal), self.audio)

    def input_text(self, example: LabelledSequence) -> str:
        content = example.content
        if not isinstance(content, str):
            return example.identity
        return content.replace(SEPARATOR, f" {TYPED_SEPARATOR} ") if self.reads_pairs else content

    def input_length(self, example: LabelledSequence) -> float:
        return len(example) / example.rate if example.rate else len(example)

    @property
    def length_unit(self) -> str:
        learned = self.fitted
        if learned.signal is None:
            return self.text.measured_unit
        return "seconds" if learned.signal.rate else "steps"

    @property
    def inputs_are_files(self) -> bool:
        return self.fitted.text is None

    def single_texts(self) -> Self:
        return self.model_copy(update={"second_text_column": ""})

    def _texts(self, example: LabelledSequence) -> tuple[str, ...]:
        """The text of an example, or both texts of a pair."""
        content = str(example.content)
        return split_pair(example.location, content) if self.reads_pairs else (content,)

    def _elements(self, example: LabelledSequence, learned: Learned) -> list[NDArray[Any]]:
        content = example.content
        if isinstance(content, str):
            if learned.text is None:
                trained = require_fitted(learned.signal)
                raise DataError(
                    example.location, f"found a text; the model was trained on {describe(trained.kind, trained.size)}"
                )
            return [np.array(learned.text.encode(text), dtype=np.int64) for text in self._texts(example)]
        if learned.text is not None:
            kind = describe(kind_of(content, example.rate), content.shape[-1])
            raise DataError(example.location, f"found {kind}; the model was trained on texts")
        return [self._inputs.scaled(located_signal(example))]

    def steps(self, example: LabelledSequence) -> int:
        if isinstance(example.content, str) or self.fitted.signal is None:
            return len(example)
        start, stop = self._read_part(example)
        return self._inputs.steps(example.content[start:stop], self.image_encoder, self.image_size)

    def _read_part(self, example: LabelledSequence) -> tuple[int, int]:
        """The elements that the encoder reads: of sound, from the first sample after the silence to the last one."""
        values = np.asarray(example.content)
        trim = self.audio.trim(example.rate, self.trim_db)
        if trim is None:
            return 0, len(values)
        samples = torch.from_numpy(values.astype(np.float32)).unsqueeze(0)
        start, stop = trim.bounds(samples, torch.tensor([len(values)]))
        return int(start), int(stop)

    def input_tokens(self, example: LabelledSequence) -> list[str]:
        return [] if self.inputs_are_files or self.reads_pairs else self._element_names(example, [])

    def _element_names(
        self, example: LabelledSequence, notes: list[str], reduction: TimeReductionConfig | None = None
    ) -> list[str]:
        """The tokens of a text or a pair, or the numbers of the time steps from 1; ``reduction``: of the output."""
        encoding = self.fitted.text
        if encoding is not None and isinstance(example.content, str):
            parts = [text_tokens(encoding, text, notes) for text in self._texts(example)]
            return [token for index, part in enumerate(parts) for token in [BETWEEN] * (index > 0) + part]
        steps = self.steps(example)
        steps = reduction.frames(steps) if reduction is not None and example.rate else steps
        return [str(number) for number in range(1, steps + 1)]

    def signal_values(self, example: LabelledSequence) -> NDArray[Any]:
        """The values of a signal that is no text, with their channels in the order of the training data, unscaled."""
        return self._inputs.values(located_signal(example))

    def check_inputs(self, examples: Sequence[LabelledSequence]) -> None:
        if self.fitted.text is None:
            for example in examples:
                if not isinstance(example.content, str):
                    self._inputs.values(located_signal(example))

    def input_warning(self, example: LabelledSequence) -> str:
        encoding = self.fitted.text
        if encoding is None or not isinstance(example.content, str):
            return self.equalizer.warning(example.equalized)
        return next(filter(None, map(encoding.describe_unknown, self._texts(example))), "")

    def unknown_words(self, example: LabelledSequence) -> list[str]:
        encoding = self.fitted.text
        if encoding is None or not isinstance(example.content, str):
            return []
        return list(dict.fromkeys(token for text in self._texts(example) for token in encoding.unknown_tokens(text)))

    @property
    def reads_unknown_by(self) -> str:
        return "pretrained vectors" if self.fitted.vectors is not None else ""


def located_signal(example: LabelledSequence) -> LocatedSignal:
    values = np.asarray(example.content)
    return LocatedSignal(example.location, Signal(values, example.rate), example.identity, example.channel_names)
