"""A trained model, ready to answer: what a run becomes when it is loaded."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

import torch
from torch import Tensor, nn

from seqloom import config as configuration
from seqloom import tasks
from seqloom.checkpoint import BadRun
from seqloom.config import Wrong
from seqloom.data.loading import BatchLoader
from seqloom.data.readers.text_files import resolve
from seqloom.data.text.vocabulary import END
from seqloom.decoding.tokens.sample import Sample
from seqloom.models.decoder import step
from seqloom.models.encoder import LayerFactory, RecurrenceConfig
from seqloom.models.ensemble import Ensemble
from seqloom.models.ngram.ngram_decoder import NGramDecoder
from seqloom.models.transcription.search_guide import LoadedLanguageModel
from seqloom.models.transcription.streaming import StreamingSession
from seqloom.models.word2vec import Word2Vec
from seqloom.run import Name, Run
from seqloom.tasks.embed import Embed
from seqloom.tasks.language_model import LanguageModel
from seqloom.tasks.task import Task, asking
from seqloom.tasks.transcribe import Transcribe
from seqloom.training.distributed import SERIAL_LIMIT, Team
from seqloom.training.loop import Train

STEPS = 100
"""Steps in a piece where sequences are joined and nothing is trained."""


class Config(NamedTuple):
    """All that a user can say about a run."""

    task: Task
    train: Train

    @classmethod
    def build(cls, document: configuration.Document) -> "Config":
        """The typed configuration of a document, or Wrong with everything that is wrong in it."""
        name = document.get("task.name")
        if name is None:
            raise Wrong(f'{document.place("task")}: missing key "name" in [task]: one of {", ".join(tasks.names())}')
        try:
            kind = tasks.find(name)
        except ValueError as error:
            raise Wrong(f"{document.place('task.name')}: {error}") from None
        parts: dict[str, Any] = document.build(task=kind, train=Train)
        if "opener" in kind.model_fields:
            parts["task"] = parts["task"].model_copy(update={"opener": speaker})
        config = cls(**parts)
        if config.train.bptt_steps and config.task.no_bptt_reason:
            place = document.place("train.bptt_steps")
            raise Wrong(
                f"{place}: train.bptt_steps is {config.train.bptt_steps}, wanted 0: {config.task.no_bptt_reason}"
            )
        return config

    @property
    def name(self) -> str:
        """Of the task."""
        return self.task.name

    def text(self) -> str:
        """The complete configuration as TOML."""
        return configuration.dump(task=self.task, train=self.train)

    def with_layer(self, layer: LayerFactory | None) -> "Config":
        """The same with a layer or cell of the user's own in the place of the recurrence."""
        places = [
            name for name in ("encoder", "decoder") if isinstance(getattr(self.task, name, None), RecurrenceConfig)
        ]
        if layer is None or not places:
            return self
        kind = getattr(self.task, "kind", "")
        if kind in ("window", "ngram", "hmm"):
            raise ValueError(f'a layer of your own is given, and task.model is "{kind}", which has none')
        name = getattr(layer, "__qualname__", type(layer).__qualname__)
        recurrence = getattr(self.task, places[0]).model_copy(update={"given": layer, "own": name})
        return self._replace(task=self.task.model_copy(update={places[0]: recurrence}))


class Model:
    """A fitted task and its trained module."""

    def __init__(self, config: Config, module: nn.Module) -> None:
        self.config = config
        self.task = config.task
        self.module = module.eval()

    def predict(self, items: Path | str | Sequence[Any], *, batch: int = 64) -> list[Any]:
        """The answers to a file (its path) or to a list of texts or arrays, in order."""
        return [answer for answers in self.answer(self.read(items), batch=batch) for answer in answers]

    def read(self, items: Path | str | Sequence[Any], **given: str) -> Iterator[Any]:
        """The questions of a file or a list; ``given`` are fields of the task, format or encoding, for this file only.

        Standard input holds a question on each line, in UTF-8, if nothing else is given.
        """
        source = resolve(items) if isinstance(items, str) else items
        known = type(self.task).model_fields
        if strange := [name for name in given if name not in known]:
            raise ValueError(f"the task {self.config.name} has no {strange[0]} to choose")
        if source == Path("-"):
            usual = {"format": "auto", "encoding": "utf-8"}
            given = {name: value for name, value in usual.items() if name in known} | given
        if not given:
            return self.task.read_inputs(source)
        values = {"task": self.task.model_dump(mode="json", exclude_none=True) | given}
        built = configuration.Document(configuration.COMMAND_LINE, values, {(): 0}).build(task=type(self.task))
        task = self.task.model_copy(update={name: getattr(built["task"], name) for name in given})
        return task.read_inputs(source)

    def answer(self, examples: Iterator[Any], *, batch: int = 64, vectors: bool = False) -> Iterator[list[Any]]:
        """The answers to examples, some at a time, as they come; ``vectors``: those of their words instead."""
        while some := list(islice(examples, batch)):
            with torch.no_grad():
                asked = self.task.collate(some)
                represent, predict = self.task.represent, self.task.predict
                found = represent(self.module, asked) if vectors else predict(self.module, asked).answers
            yield found

    def represent(self, items: Path | str | Sequence[Any], *, batch: int = 64) -> list[Any]:
        """The vectors of the words of a file or of a list of texts, in order; of language models in both directions."""
        return [found for some in self.answer(self.read(items), batch=batch, vectors=True) for found in some]

    def stream(
        self, source: Path | str, *, batch: int = 64, vectors: bool = False, **given: str
    ) -> Iterator[list[Any]]:
        """The answers to a file, some at a time, as it is read; ``given`` as for ``read``."""
        return self.answer(self.read(str(source), **given), batch=batch, vectors=vectors)

    def listen(self, *, lag: float = 0.0) -> StreamingSession[Any]:
        """Hear one recording while it is made: ``feed`` gives what is certain by now, ``finish`` the answer.

        What was said ``lag`` seconds of sound, or frames, ago is decided on; 0: only what nothing can change any more.
        """
        if not isinstance(self.task, Transcribe):
            raise TypeError(f"a model of the task {self.config.name} hears nothing; wanted a transcribe")
        return self.task.listen(self.module, lag=lag)

    def export(self, path: Path) -> None:
        """The model in a format of the field: .arpa or .arpa.gz of n-grams; .txt, .vec or .bin of word vectors."""
        endings = {NGramDecoder: (".arpa", ".arpa.gz"), Word2Vec: (".txt", ".vec", ".bin")}
        if not path.name.endswith(endings.get(type(self.module), ())):
            words = ", and word vectors, as .txt, .vec or .bin"
            raise ValueError(f"{path}: only n-gram models are written, as .arpa or .arpa.gz files{words}")
        cast(Any, self.module).write(path)

    def evaluate(self, source: Path | str | Sequence[Any], *, restrict: int = 0) -> dict[str, Any]:
        """The scores on labelled data; ``restrict``: of analogies, among so many of the most frequent words."""
        config = self.config
        if restrict:
            if not isinstance(self.task, Embed):
                raise TypeError(f"a model of the task {config.name} has no analogies; wanted an embed")
            config = config._replace(task=self.task.restricted(restrict))
        examples = list(self.task.read(resolve(source) if isinstance(source, str) else source))
        if not examples:
            raise ValueError(f"{source}: there are no examples")
        return assess(config, self.module, examples)

    def generate(self, prompt: str = "", *, length: int = 200, sample: Sample | None = None) -> Iterator[str]:
        """Text that goes on from the prompt, piece by piece; of language models."""
        if not isinstance(self.task, LanguageModel):
            raise TypeError(f"a model of the task {self.config.name} generates no text; wanted a language_model")
        encoding, module = self.task.symbols, cast(Any, self.module)
        end = encoding.vocabulary.index(END)
        *before, line = ([*encoding.encode(text)] for text in prompt.split("\n"))
        *read, last = [end, *(symbol for text in before for symbol in (*text, end)), *line]

        @torch.no_grad()
        def follow(tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
            return step(self.module, tokens, state)

        with torch.no_grad():
            state = module.start(None, 1)
            if read:
                _, state = module(torch.tensor([read]), state)
        said = encoding.decode(line)
        walk = (sample or Sample()).stream(follow, state, torch.tensor([last]), length=length, never=(0,))
        for symbol in map(int, walk):
            if symbol == end:
                yield encoding.decode(line)[len(said) :] + "\n"
                line, said = [], ""
                continue
            line.append(symbol)
            text = encoding.decode(line).rstrip("\ufffd")  # a character of several bytes may be on its way
            yield text[len(said) :]
            said += text[len(said) :]
        yield encoding.decode(line)[len(said) :]


def load(
    path: str | Path,
    *,
    layer: LayerFactory | None = None,
    checkpoint: Name = "best",
    search: str = "",  # instead of that of the configuration, such as "beam size=5 best=3"
    allowed: str = "",  # file of the only answers that there may be
    also: Sequence[str | Path] = (),  # further runs of the same task and symbols: all answer together
    lexicon: str = "",  # file of the only words that a transcript may have
    language: str = "",  # that a transcript is guided by, such as "words.arpa weight=0.8 bonus=1" or a run
    folder: str = "",  # or archive of the recordings that a list names
) -> Model:
    """The model of a run: the best one, or the last."""
    run = Run.open(path)
    given = asking(search, allowed=allowed, lexicon=lexicon, language=language, folder=folder)
    config = opened(run, layer=layer, overrides=given)
    module = config.task.build_model()
    snapshot = run.load_best() if checkpoint == "best" else run.load(checkpoint)
    module.load_state_dict(snapshot.model)
    if not also:
        return Model(config, module)
    others = [load(other, layer=layer, checkpoint=checkpoint) for other in also]
    for name, other in zip(also, others, strict=True):
        if other.task.learned != config.task.learned:
            raise ValueError(f"{name} and {path} have learnt other symbols: they cannot answer together")
        if getattr(other.task, "reverse", False) != getattr(config.task, "reverse", False):
            raise ValueError(f"{name} and {path} read their sources in other directions: they cannot answer together")
    return Model(config, Ensemble([module, *(other.module for other in others)]))


def document(path: str, overrides: Sequence[str] = (), *, task: str = "", data: str = "") -> configuration.Document:
    """The configuration of a file, or of a task and the data alone, with changes as ``section.key=value``."""
    if "=" in path and not Path(path).is_file():
        path, overrides = "", [path, *overrides]
    if path and (task or data):
        raise ValueError(f"{path} says what to learn: give either a configuration or --task and --data")
    if path:
        return configuration.read(Path(path), overrides)
    if not task or not data:
        raise ValueError("what is to be trained? Give a configuration (seqloom init), or --task and --data")
    kind = tasks.find(task)
    found = {**kind.recommended, "task.name": task, "task.dev": "", **files(data)}
    given = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in found.items()]
    return configuration.Document.empty([*given, *overrides])


def files(data: str) -> dict[str, str]:
    """The training and the development file of a folder, by their names; a file alone is for training."""
    folder = resolve(data)
    if not folder.is_dir():
        return {"task.train": data}
    found = {}
    for key, words in (("task.train", ("train",)), ("task.dev", ("dev", "valid", "val"))):
        names = sorted(path.name for path in folder.iterdir() if any(word in path.name.lower() for word in words))
        if len(names) > 1:
            raise ValueError(f"{data}: there are several files for {key}: {', '.join(names)}; write a configuration")
        if names:
            found[key] = str(Path(data, names[0]))
    if "task.train" not in found:
        raise ValueError(f"{data}: no file has train in its name; give the file itself, or write a configuration")
    return found


def find_layer(name: str) -> LayerFactory | None:
    """The layer or cell that a user names as ``module:name``; looked for in the current folder, too."""
    if not name:
        return None
    module, _, attribute = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: LayerFactory = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"--layer is {name!r}, wanted module:name of a cell or a layer: {error}") from None
    finally:
        sys.path.pop(0)
    return found


def opened(run: Run, *, layer: LayerFactory | None = None, overrides: Sequence[str] = ()) -> Config:
    """The configuration of a run with what its task had learnt."""
    text = configuration.parse(run.config, str(run.path / "config.toml"), overrides=overrides)
    config = Config.build(text).with_layer(layer)
    kinds = get_args(type(config.task).model_fields["learned"].annotation)  # of Learned | None
    try:
        learned = kinds[0].model_validate_json(run.learned)
    except ValueError as error:
        raise BadRun(f"{run.path / 'learned.json'}: is not what the task {config.name} has learnt") from error
    return config._replace(task=config.task.model_copy(update={"learned": learned}))


def speaker(path: Path) -> LoadedLanguageModel:
    """The language model of a run."""
    found = load(path)
    if not isinstance(found.task, LanguageModel):
        raise TypeError(f"{path}: is a model of the task {found.config.name}; wanted a language_model")
    return LoadedLanguageModel(found.task.symbols, found.module)


def assess(
    config: Config,
    module: nn.Module,
    examples: Sequence[Any],
    *,
    team: Team = SERIAL_LIMIT,
    alive: Callable[[], None] = lambda: None,  # called between batches; may raise
) -> dict[str, Any]:
    """The scores of a model on examples; each process of a team answers its share."""
    found = answers(config, module, examples, team=team, alive=alive)
    scores: dict[str, Any] = team.share(lambda: config.task.score(found, examples))
    return scores


def answers(
    config: Config,
    module: nn.Module,
    examples: Sequence[Any],
    *,
    team: Team = SERIAL_LIMIT,  # its first process gets them
    alive: Callable[[], None] = lambda: None,
) -> list[Any]:
    """What a model says to examples, in their order; where they are joined, to one piece of it all after the other."""
    task, settings = config.task, config.train
    steps = max(settings.bptt_steps, STEPS) if settings.bptt_steps and not hasattr(module, "count") else 0
    order = range(len(examples)) if steps else sorted(range(len(examples)), key=lambda row: len(examples[row]))
    batches = BatchLoader(
        lambda: (examples[row] for row in order),
        task.collate,
        rows=settings.batch_size if steps else max(settings.batch_size, 32),
        tokens=0 if steps else settings.batch_tokens,
        steps=steps,
        shuffle=False,
        pool=len(examples),  # they are in memory, and all of them lie on the same tracks
        parts=team.size,
        own=range(team.rank, team.rank + 1),
    )
    said: list[list[Any]] = []
    state = None
    # Where the module is, which need not be where it was trained.
    device = next((tensor.device for tensor in chain(module.parameters(), module.buffers())), "cpu")
    module.eval()
    with torch.no_grad():
        for parts in batches.epoch(0):
            alive()
            found: list[Any] = []
            for part in parts:
                predictions = task.predict(module, part._replace(state=state if part.continues else None).to(device))
                state = predictions.state
                found += predictions.answers
            said.append(found)
    merged = team.merge(said)
    if steps:  # a batch has a piece of each track
        return [answer for track in range(settings.batch_size) for answer in merged[track :: settings.batch_size]]
    return [answer for _, answer in sorted(zip(order, merged, strict=False), key=lambda pair: pair[0])]
