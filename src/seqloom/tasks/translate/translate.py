"""Translation: one sequence of tokens to another, such as sentences, pronunciations, commands or dates."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from torch import Tensor, nn

from seqloom.data.batch import Batch, Padded, pad
from seqloom.data.dataset_summary import ExampleSummary
from seqloom.data.readers.parallel import Pair, PairReader
from seqloom.data.readers.text_files import DataError, lines, resolve
from seqloom.data.text.bpe_dropout import BPEDropout
from seqloom.data.text.vocabulary import END
from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.tokens.greedy import Greedy
from seqloom.decoding.tokens.prefix_tree import PrefixTree
from seqloom.export_check import ExportError
from seqloom.insight.explanation import Explanation
from seqloom.insight.gates import LabelledTrace
from seqloom.insight.search_report import DecoderSource, explain_generation, trace_generation
from seqloom.insight.token_names import text_tokens
from seqloom.layers.embedding import UNKNOWN, Embedding
from seqloom.layers.layer import Memory
from seqloom.models.classifier import TokenEmbedding
from seqloom.models.encoder import Encoder, build_stack
from seqloom.models.encoder_decoder import EncoderDecoder, build_encoder_decoder
from seqloom.models.ensemble import Ensemble
from seqloom.models.generation import SUPPRESSED, generate, teacher_forced_scores, teacher_forcing_loss
from seqloom.models.guided_generation import generate_guided, guided_candidates
from seqloom.models.joint_ngram.alignment import align, needed_chunk
from seqloom.models.joint_ngram.hybrid import HybridTranslator, TableShapes
from seqloom.models.joint_ngram.joint_ngram import IMPOSSIBLE, JointNGram
from seqloom.models.pretrained.combined import CombinedInput
from seqloom.models.transcription.search_guide import build_guide
from seqloom.tasks.language_model import load_language_model
from seqloom.tasks.task import Loss, Predictions, Task, with_readable_tokens
from seqloom.tasks.translate.scoring import TranslateScoring, Translation
from seqloom.tasks.translate.settings import MARGIN, AlignedPairs, Learned

if TYPE_CHECKING:
    from seqloom.onnx.exported import OnnxModel


class Translate(TranslateScoring):
    """Translate sequences into other sequences: sentences, pronunciations, commands."""

    @property
    def is_counting_model(self) -> bool:
        return self.model == "joint_ngram"

    def read(self, source: Path | Sequence[Any]) -> Iterator[Pair]:
        """Read a file, or Python values: sources, or tuples of a source and its target."""
        return self._reader().read(source)

    def read_inputs(self, source: Path | Sequence[Any]) -> Iterator[Pair]:
        return self._reader().read_inputs(source)

    def resolve(self, source: Path | Sequence[Any]) -> tuple[Self, tuple[str, ...]]:
        settings, note = self._reader().inspect(source)
        return self.model_copy(update=settings), (note,) if note else ()

    def _reader(self) -> PairReader:
        names = ("format", "encoding", "separator", "source_column", "target_column")
        return PairReader(
            **{name: getattr(self, name) for name in names},
            source_length=self.source.measure,
            target_length=self._target_text.measure,
        )

    def fit(self, examples: Iterable[Pair]) -> Self:
        sources, targets, ratios = [], [], []
        for example in examples:
            if example.target is None:
                advice = "separate them by a tab, set task.separator, or give two files as train.{en,de}.txt"
                raise DataError(example.location, f"no target; training needs a target for each source: {advice}")
            sources.append(example.source)
            targets.append(example.target)
            ratios.append(example.lengths[1] / max(example.lengths[0], 1))
        if not sources:
            raise self._no_examples()
        if not any(targets):
            raise DataError(self.train, "all targets are empty; set task.separator, or task.target_column")
        language = self.pretrained.language(self.source.unit)
        texts = [*sources, *targets] if self.shared_vocab else sources
        source = self.pretrained.fit(self.source, texts, language, specials=(END,))
        target = None if self.shared_vocab else self.target.fit(targets, specials=(END,))
        ratio = float(np.quantile(ratios, 0.999))
        vectors = self.pretrained.load(source.vocabulary.tokens, language)
        learned = Learned(source=source, target=target, vectors=vectors, ratio=ratio)
        if self.model != "neural":
            learned = self._align(zip(sources, targets, strict=True), learned)
        return self.model_copy(update={"learned": learned})

    def _align(self, pairs: Iterable[tuple[str, str]], learned: Learned) -> Learned:
        """Learn how many target tokens a source token stands for; for a hybrid, the units and their n-grams, too."""
        source, target = learned.source, learned.target or learned.source
        encoded = [(source.encode(left), target.encode(right)) for left, right in pairs]
        chunk = self.joint_ngram.max_chunk or needed_chunk((len(left), len(right)) for left, right in encoded)
        feasible = [right for left, right in encoded if len(right) <= chunk * len(left)]
        unknown = sum(UNKNOWN in right for right in feasible)
        if unknown == len(feasible):
            raise DataError(
                self.train,
                f"no pair can be used: all targets have more than {chunk} tokens per source token, which "
                "task.joint_ngram.max_chunk allows, or unknown tokens (task.target.min_count)",
            )
        too_long = len(encoded) - len(feasible)
        counted = AlignedPairs(max_chunk=chunk, too_long=too_long, unknown=unknown, examples=len(encoded))
        tables = None
        if self.model == "hybrid":
            alignment = align(encoded, longest_chunk=chunk)
            end = target.vocabulary.index(END)
            sizes = {"order": self.joint_ngram.order, "sources": len(source.vocabulary), "end": end}
            tables = TableShapes.estimate(alignment, **sizes)
        return learned.model_copy(update={"aligned": counted, "tables": tables})

    @property
    def warnings(self) -> tuple[str, ...]:
        aligned = self.fitted.aligned
        if aligned is None:
            return ()
        return tuple(
            f"{count:,} of {aligned.examples:,} examples ({count / aligned.examples:.2%}) are skipped: {reason}"
            for count, reason in zip((aligned.too_long, aligned.unknown), aligned.reasons, strict=True)
            if count
        )

    def infeasible(self, example: Pair) -> str:
        aligned = self.fitted.aligned
        if aligned is None or example.target is None:
            return ""
        source, target = self._encode_pair(example)
        too_long, unknown = aligned.reasons
        if len(target) > aligned.max_chunk * len(source):
            return too_long
        return unknown if UNKNOWN in target else ""

    def input_text(self, example: Pair) -> str:
        return example.source

    def is_empty_input(self, example: Pair) -> bool:
        """A pair has a length of its own, also if only its target is known."""
        return not example.source.strip()

    def with_predicted_target(self, example: Pair, prediction: Translation) -> Pair:
        return replace(example, target=prediction.text)

    def input_length(self, example: Pair) -> int:
        return example.lengths[0]

    @property
    def length_unit(self) -> str:
        return self.source.measured_unit

    def summarize_example(self, example: Pair) -> ExampleSummary:
        sides = zip(("source", "target"), (example.source, example.target), example.lengths, strict=True)
        return ExampleSummary(
            content=example.source.encode(),
            target=example.target or "",
            labelled=example.target is not None,
            lengths=[(name, length) for name, text, length in sides if text is not None],
        )

    @property
    def augment_example(self) -> Callable[[Pair, np.random.Generator], Pair] | None:
        return self._split_at_random if self.bpe_dropout else None

    def _split_at_random(self, example: Pair, random: np.random.Generator) -> Pair:
        """The pair split into other subwords: BPE-dropout."""
        source, target = self._splitters
        return replace(example, tokens=(source(example.source, random), target(example.target or "", random)))

    @cached_property
    def _splitters(self) -> tuple[Callable[[str, np.random.Generator], list[int]], ...]:
        """Functions that split the source and the target at random, where they are split by BPE."""
        sides = ((self.source, self.fitted.source), (self._target_text, self._target_tokenizer))
        return tuple(
            BPEDropout(tokenizer, self.bpe_dropout).encode
            if text.is_bpe
            else lambda text, _, each=tokenizer: each.encode(text)
            for text, tokenizer in sides
        )

    def collate(self, examples: Sequence[Pair]) -> Batch:
        learned, end = self.fitted, self._end
        sources = [
            example.tokens[0] if example.tokens else learned.source.encode(example.source) for example in examples
        ]
        inputs = pad([np.array([*(text[::-1] if self.reverse_source else text), end]) for text in sources])
        if learned.vectors is not None:
            rows = [learned.source.cased_tokens(example.source) for example in examples]
            pretrained = learned.vectors.collate(rows, end=True, reverse=self.reverse_source)
            inputs = Padded(cast(Any, CombinedInput(inputs.values, pretrained, inputs.mask)), inputs.mask)
        if any(example.target is None for example in examples):
            return Batch(inputs, None, 0, examples=tuple(examples))
        encode = self._target_tokenizer.encode
        targets = [example.tokens[1] if example.tokens else encode(example.target or "") for example in examples]
        target = pad([np.array([*tokens, end]) for tokens in targets])
        return Batch(inputs, target, int(target.mask.sum()), examples=tuple(examples))

    def build_model(self) -> EncoderDecoder | JointNGram | HybridTranslator:
        learned = self.fitted
        sizes: dict[str, int] = {
            "sources": len(learned.source.vocabulary),
            "targets": len(self._target_tokenizer.vocabulary),
            "end": self._end,
            "order": self.joint_ngram.order,
        }
        if learned.aligned is not None and learned.tables is None:
            return JointNGram(self._encode_pair, longest_chunk=learned.aligned.max_chunk, **sizes)
        embed = Embedding(len(learned.source.vocabulary), self.embedding_size, dropout=self.input_dropout)
        tokens = None if self.pretrained.replace_embeddings else TokenEmbedding(embed, dropout=self.word_dropout)
        inputs, size = self.pretrained.build_embedding(learned.vectors, tokens, size=self.embedding_size)
        encoder_layer = build_stack(self.prenet, self.encoder, size)
        encoder = Encoder(inputs, encoder_layer, dropout=self.encoder.dropout)
        if learned.tables is not None:
            return HybridTranslator(encoder, learned.tables, **sizes)
        if not self.shared_vocab:
            vocabulary = self._target_tokenizer.vocabulary
            embed = Embedding(len(vocabulary), self.embedding_size, dropout=self.input_dropout)
        return build_encoder_decoder(
            encoder,
            embed,
            self.decoder,
            attention=self.attention,
            encoder_layer=encoder_layer,
            bridge=self.bridge,
            tied=self.tie_embeddings,
            scheduled_sampling=self.scheduled_sampling,
        )

    def _encode_pair(self, example: Pair) -> tuple[list[int], list[int]]:
        return self.fitted.source.encode(example.source), self._target_tokenizer.encode(example.target or "")

    def loss(self, model: Any, batch: Batch) -> Loss:
        self._require_target(batch)
        if isinstance(model, HybridTranslator):
            return Loss(model.alignment_loss(*batch[:2], smoothing=self.label_smoothing), batch.items)
        total = teacher_forcing_loss(
            model, model.start(*batch.inputs), batch.target, end=self._end, smoothing=self.label_smoothing
        )
        return Loss(total, batch.items)

    def encode(self, model: Any, batch: Batch) -> Memory:
        """Of the source; the end token is an element, too."""
        encoder = model.network if isinstance(model, HybridTranslator) else model.encoder
        memory: Memory = encoder(*batch.inputs)
        return memory

    def predict(self, model: Any, batch: Batch) -> Predictions:
        memory: Memory = model.encoder(*batch.inputs)
        batch, end = batch.to(memory.mask.device), self._end  # lattices are on the CPU
        lengths: Tensor | int = self._max_lengths(batch.inputs.lengths)
        tree = None
        if self.constrain:
            tree, lengths = self._constraints
        guided = generate_guided(
            model.decoder,
            memory,
            self.search,
            guide=self._guide,
            vocab_size=len(self._target_tokenizer.vocabulary),
            end=end,
            lengths=lengths,
            suppress=SUPPRESSED,
            tree=tree,
        )
        forced: list[tuple[list[float], list[bool]]] = [([], [])] * len(guided)
        if batch.target is not None:
            forced = teacher_forced_scores(model.decoder, memory, batch.target, end=end)
        answers = []
        unknown = [self.fitted.source.unknown_tokens(example.source) for example in batch.examples]
        for row, (target, correct), tokens in zip(guided, forced, unknown, strict=True):
            candidates = guided_candidates(row, self._target_tokenizer, self._guide)
            best, *others = candidates
            if self.model != "neural":
                candidates = [best, *(each for each in others if min(each.log_probabilities) > IMPOSSIBLE)]
            fields = (best.text, best.score, best.tokens, best.log_probabilities, candidates, target, correct)
            answers.append(Translation(*fields, tokens))
        return Predictions(answers)

    def onnx_model(self, model: Any) -> "OnnxModel":
        """The encoder-decoder with greedy search, and its parts for beam search."""
        from seqloom.onnx.encoder_decoder import Limits
        from seqloom.onnx.guide import export_guide
        from seqloom.onnx.inputs import token_input
        from seqloom.onnx.pretrained import TextOrder, describe_pretrained
        from seqloom.onnx.search import ModelInput, feed_text, generator

        if self.model != "neural":
            raise ExportError(f'a translator with task.model = "{self.model}" cannot be exported to ONNX')

        def greedy(examples: Sequence[Pair]) -> tuple[Any, Any]:
            inputs = self.collate(examples).inputs
            lengths = self._max_lengths(inputs.lengths)
            options: dict[str, Any] = {"end": self._end, "lengths": lengths, "suppress": SUPPRESSED}
            return generate(model.decoder, model.encoder(*inputs), Greedy(), **options), lengths

        source, target = (text.model_dump(mode="json") for text in (self.fitted.source, self._target_tokenizer))
        embed = model.encoder.embed
        entry = ModelInput(
            partial(token_input, embed=embed, order=TextOrder(end=True, reverse=self.reverse_source)),
            {
                "kind": "source",
                "tokenizer": source,
                "reverse": self.reverse_source,
                "end": self._end,
                **describe_pretrained(self.fitted.vectors),
            },
            partial(feed_text, self.collate, embed=embed),
        )
        allowed = self._allowed_outputs if self.constrain else None
        search = self.search.model_dump(mode="json")
        output = {"kind": "tokens", "tokenizer": target, "search": search, "allowed": allowed}
        return generator(
            model,
            entry,
            limits=Limits(self.max_length.factor or MARGIN * self.fitted.ratio, self.max_length.offset, shift=1),
            end=self._end,
            suppress=SUPPRESSED,
            generate=greedy,
            description={"task": self.name, "output": output},
            guide=export_guide(self._guide),
        )

    @property
    def answers_have_line_breaks(self) -> bool:
        return self._target_tokenizer.has_line_breaks

    def to_json(self, prediction: Translation) -> dict[str, Any]:
        return with_readable_tokens(asdict(prediction), self._target_tokenizer)

    @cached_property
    def _guide(self) -> Guide:
        """The lexicon and the language model of the search."""
        options: dict[str, Any] = {"search": self.search, "file_encoding": self.encoding}
        text, load_run = self._target_tokenizer, load_language_model
        return build_guide(text, self.lexicon, self.lm, load_run=load_run, **options) or Guide()

    @property
    def prediction_notes(self) -> tuple[str, ...]:
        return self._guide.notes

    @cached_property
    def _constraints(self) -> tuple[PrefixTree, int]:
        """The allowed outputs as a tree, and the length of the longest including the end token."""
        allowed = self._allowed_outputs
        return PrefixTree(allowed, end=self._end), max(map(len, allowed)) + 1

    @property
    def _allowed_outputs(self) -> list[list[int]]:
        """The tokens of each output that task.constrain allows."""
        path = resolve(self.constrain)
        outputs = [self._target_tokenizer.encode(text) for _, text in lines(path, encoding=self.encoding)]
        known = [tokens for tokens in outputs if UNKNOWN not in tokens]
        if not known:
            raise DataError(str(path), "contains no output whose tokens all occur in the training data")
        return known

    def require_sentence_vectors(self) -> None:
        if self.model == "joint_ngram":
            raise TypeError('this model cannot give sentence vectors: task.model = "joint_ngram" has no encoder')

    @property
    def custom_layer_field(self) -> str:
        return "" if self.model == "joint_ngram" else "encoder"

    def warm_start_conflict(self, other: Task) -> str:
        models = [self.model, *([other.model] if isinstance(other, Translate) else [])]
        if "hybrid" in models:
            return 'task.model = "hybrid" needs the units of its own data: train it without --from'
        return super().warm_start_conflict(other)

    def ensemble_conflict(self, other: Task) -> str:
        if isinstance(other, Translate) and other.reverse_source != self.reverse_source:
            return "read their sources in different directions"
        if isinstance(other, Translate):
            own = self.fitted
            other = other.model_copy(
                update={"learned": other.fitted.model_copy(update={"aligned": own.aligned, "tables": own.tables})}
            )
        return super().ensemble_conflict(other)

    def ensemble(self, models: Sequence[nn.Module]) -> Ensemble:
        return Ensemble(models)

    def unknown_words(self, example: Pair) -> list[str]:
        return self.fitted.source.unknown_tokens(example.source)

    @property
    def reads_unknown_by(self) -> str:
        return "pretrained vectors" if self.fitted.vectors is not None else ""

    def input_tokens(self, example: Pair) -> list[str]:
        tokens = text_tokens(self.fitted.source, example.source, [])
        return [*(tokens[::-1] if self.reverse_source else tokens), END]

    def explain(self, model: Any, example: Pair, *, beam: bool = False, heads: bool = False) -> Explanation:
        """The n-best list, and the attention over the source tokens, in the order of the text."""
        notes: list[str] = []
        tokens = text_tokens(self.fitted.source, example.source, notes)
        order = [*range(len(tokens))[::-1], len(tokens)] if self.reverse_source else []
        source = DecoderSource(example.source, [*tokens, END], order, notes)
        options: dict[str, Any] = {"beam": beam, "heads": heads, "guide": self._guide}
        return explain_generation(self, model, example, source=source, encoding=self._target_tokenizer, **options)

    def trace_gates(self, model: Any, example: Pair) -> list[LabelledTrace]:
        tokens = self.input_tokens(example)
        return trace_generation(self, model, example, source_tokens=tokens, encoding=self._target_tokenizer)
