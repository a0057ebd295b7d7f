"""Deliberate mistakes on the command line, in configurations, and with trained models."""

from collections.abc import Iterator

from tests.contracts.mistakes import TABLE, Files, Mistake, reviews


def operator() -> Iterator[Mistake]:
    """Commands, files and configurations that are not what they should be."""
    files: Files = {TABLE: reviews()}

    def command(name: str, text: str, says: str) -> Mistake:
        return Mistake(f"command: {name}", files, text, says)

    yield command("no task", "check --data t.csv", "--data t.csv needs --task, too")
    yield command("no data", "check --task classify", "--task classify needs --data FILE, too")
    yield command("nothing", "check", "nothing to train or check")
    yield command("data as configuration", "train t.csv", "if this is a data file, use --task TASK --data FILE")
    yield command("both", "train t.csv --task classify --data t.csv", "not both")
    yield command("two files", "check --task classify --data t.csv u.csv", "give either a configuration")
    yield command("another name of a task", "check --task sentiment --data t.csv", 'did you mean "classify"')
    yield command("ner", "check --task ner --data t.csv", 'did you mean "tag"')
    yield command("no such task", "check --task xyzzy --data t.csv", 'unknown task "xyzzy"')
    yield command("no such file", "check --task classify --data u.csv", "u.csv: no such file")
    yield command(
        "a folder without train", "check --task classify --data .", "no file has 'train' in its name|label from"
    )
    yield command("an option for a key", "train --task classify --data t.csv --epochs 3", "train.epochs")
    yield command("a key without a value", "train --task classify --data t.csv train.epochs", "write section.key=value")
    yield command("a key without its section", "train --task classify --data t.csv epochs=3", "train.epochs")
    yield command(
        "no epochs", "train --task classify --data t.csv train.epochs=0", "epochs is 0 and there is no other limit"
    )
    yield command(
        "negative minutes", "train --task classify --data t.csv train.minutes=-1", "greater than or equal to 0"
    )
    yield command("a run that is a file", "train --task classify --data t.csv --output t.csv", "t.csv")
    yield command(
        "a warm start from nowhere", "train --task classify --data t.csv --from nowhere", "nowhere: no such run"
    )
    yield command("resume nothing", "train --resume nowhere", "nowhere: no such run")
    yield command("a graphics card", "train --task classify --data t.csv train.device=gpu", "expected cpu")
    yield command("a rate below 0", "check --task classify --data t.csv train.learning_rate=-1", "greater than 0")
    yield command("a rate in words", "check --task classify --data t.csv train.learning_rate=fast", "expected a number")
    yield command("no batch", "check --task classify --data t.csv train.batch_size=0", "greater than")
    yield command("half an epoch", "check --task classify --data t.csv train.epochs=1.5", "expected an integer")
    yield command(
        "a cell with a typo", "check --task classify --data t.csv task.encoder.cell=lsmt", 'did you mean "lstm"'
    )
    yield command("lr", "check --task classify --data t.csv train.lr=0.1", 'did you mean "train.learning_rate"')
    yield command(
        "a layer that is no class", "check --task classify --data t.csv task.encoder.cell=nn.LSTM", "unknown cell"
    )
    yield command("a layer without a file", "train --task classify --data t.csv --layer mine.py:Cell", "mine.py")
    yield command("sweep without a space", "sweep --task classify --data t.csv", "sweep")
    yield command("compare with nothing", "compare", "")
    for name, toml, says in (
        ("no table", "name = 'classify'\n", "task"),
        ("no name", "[task]\ntrain = 't.csv'\n", 'missing key "task.name"'),
        ("no data", "[task]\nname = 'classify'\n", "train"),
        ("an unknown table", "[task]\nname = 'classify'\ntrain = 't.csv'\n[model]\nsize = 3\n", "unknown table"),
        ("a key twice", "[task]\nname = 'classify'\ntrain = 't.csv'\ntrain = 'u.csv'\n", "c.toml:4|train"),
        ("an open quote", "[task]\nname = 'classify\n", "c.toml:2"),
        ("an open table", "[task\n", "c.toml:1"),
        (
            "a text for a number",
            "[task]\nname = 'classify'\ntrain = 't.csv'\n[train]\nepochs = '3'\n",
            "c.toml:5: train.epochs: expected an integer",
        ),
        (
            "a key of another task",
            "[task]\nname = 'classify'\ntrain = 't.csv'\nhorizon = 3\n",
            'c.toml:4: unknown key "task.horizon"',
        ),
    ):
        yield Mistake(f"configuration: {name}", {**files, "c.toml": toml}, "check c.toml", says)


def user_of_a_run() -> Iterator[Mistake]:
    """Runs, inputs and options of commands that use a trained model; ``RUNS`` is a folder with one of each task."""
    files: Files = {
        "empty.txt": "",
        "x.txt": "hello\n",
        "s.csv": "date,v\n2024-01-01,3\n",
        "nul.txt": b"\0\1\2",
        "latin.txt": "café\n".encode("latin-1"),
        "i.png": b"\x89PNG\r\n\x1a\n" + bytes(20),
    }

    def use(name: str, command: str, says: str, *, fails: bool = True) -> Mistake:
        return Mistake(f"run: {name}", files, command, says, fails)

    for command in ("predict", "evaluate", "explain"):
        yield use(f"{command}: no such run", f"{command} nowhere x.txt", "nowhere: no such run")
        yield use(f"{command}: a file as a run", f"{command} x.txt x.txt", "not a run but a file")
        yield use(f"{command}: a folder as a run", f"{command} . x.txt", "not a run")
    yield use("info of a folder", "info .", "not a run")
    yield use("no such input", "predict RUNS/classify nowhere.txt", "nowhere.txt: no such file")
    yield use("an empty input", "predict RUNS/classify empty.txt", "the input is empty", fails=False)
    yield use(
        "unknown words", "predict RUNS/classify x.txt", "no word of the text occurs in the training data", fails=False
    )
    yield use(
        "unknown words in a language model",
        "predict RUNS/language_model x.txt",
        "no word of the text occurs",
        fails=False,
    )
    yield use(
        "unknown source words",
        "predict RUNS/translate x.txt",
        "tokens that the model does not know: 'hello'",
        fails=False,
    )
    yield use("an unknown word", "predict RUNS/embed x.txt", "unknown: hello", fails=False)
    yield use("numbers for texts", "predict RUNS/classify s.csv", "the model was trained on texts")
    yield use("numbers for words", "predict RUNS/tag s.csv", "the model was trained on words")
    yield use("another series", "predict RUNS/forecast s.csv", "no column 'one'")
    yield use("words for a series", "predict RUNS/forecast x.txt", "no rows after the header")
    for task in ("classify", "tag", "translate", "language_model"):
        yield use(f"{task}: NUL bytes", f"predict RUNS/{task} nul.txt", "found a NUL byte")
        yield use(f"{task}: Latin-1", f"predict RUNS/{task} latin.txt", "expected UTF-8.*--encoding latin-1")
        yield use(f"{task}: nothing to evaluate", f"evaluate RUNS/{task} empty.txt", "there are no examples")
    yield use("an image for words", "predict RUNS/tag i.png", "a PNG image")
    for task, says in (
        ("classify", "no label"),
        ("tag", "no label"),
        ("translate", "no target"),
        ("embed", "found plain text"),
    ):
        yield use(f"{task}: evaluate without targets", f"evaluate RUNS/{task} x.txt", says)
    yield use(
        "generate with a classifier",
        "generate RUNS/classify hello",
        "generates nothing .tasks that do: forecast, handwriting, language_model, music",
    )
    yield use("align with a classifier", "align RUNS/classify x.txt hello", "cannot give the times of words")
    yield use("export a classifier", "export RUNS/classify m.arpa", "exported as .onnx")
    yield use("no such method", "explain RUNS/classify hello --method magic", "unknown method 'magic'")
    yield use("an unknown query", "explain RUNS/embed xyzzy", "has no vector")
    yield use("no such search", "predict RUNS/translate x.txt --search bream", "beam")
    yield use(
        "an ensemble of tasks", "predict RUNS/classify x.txt --ensemble RUNS/tag", "cannot form an ensemble|ensemble"
    )
    yield use("a lexicon for a classifier", "predict RUNS/classify x.txt --lexicon x.txt", "lexicon")
