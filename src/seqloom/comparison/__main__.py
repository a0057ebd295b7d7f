"""``python -m seqloom.comparison FOLDER``: run one trial; started by ``subprocess_trial``. Exits with 130 on Ctrl-C.

Options: ``--brief``, ``--no-warnings``, and ``--layer=module:name`` for a custom layer.
"""

import _thread
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path


def main() -> None:
    """Read a configuration from standard input, train it in a folder and write the results beside the folder."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs with SIGINT ignored
    try:
        layers = [option.removeprefix("--layer=") for option in sys.argv[2:] if option.startswith("--layer=")]
        options = {"brief": "--brief" in sys.argv, "show_warnings": "--no-warnings" not in sys.argv}
        _run(Path(sys.argv[1]), layer="".join(layers), **options)
    except KeyboardInterrupt:
        sys.exit(130)


def _run(folder: Path, *, layer: str, brief: bool, show_warnings: bool) -> None:
    # Imported here, because importing torch takes long enough for a Ctrl-C to arrive meanwhile.
    from seqloom import terminal
    from seqloom.comparison import trial
    from seqloom.config import parse
    from seqloom.interrupt import Interrupted
    from seqloom.run import Run
    from seqloom.run_config import Config, find_layer
    from seqloom.training.progress import Progress

    text = _read_config()
    try:
        with terminal.TrainingProgress(quiet=brief) as progress:
            custom_layer = find_layer(layer)
            config = Config.build(parse(text, "configuration"), defaults=False)

            def show(run: Run, event: Progress) -> None:
                # The parent process has printed the notes once for all trials.
                progress(replace(run, notes=(), warnings=run.warnings if show_warnings else ()), event)

            results = trial.run_trial(config, folder, [show], layer=custom_layer, brief=brief)
    except Interrupted:
        sys.exit(130)
    except trial.FAILURES as error:
        results = trial.trial_error(error)
    trial.write_json(trial.results_path(folder), results)


def _read_config() -> str:
    """The configuration from standard input; its end after that, when the parent process has died, is a Ctrl-C."""
    lines = []
    for line in sys.stdin:
        if line == "\0\n":
            threading.Thread(target=_interrupt_at_end, daemon=True).start()
            break
        lines.append(line)
    return "".join(lines)


def _interrupt_at_end() -> None:
    sys.stdin.read()
    _thread.interrupt_main()


if __name__ == "__main__":
    main()
