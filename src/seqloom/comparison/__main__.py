"""``python -m seqloom.comparison FOLDER``: run one trial; started by ``subprocess_trial``. Exits with 130 on Ctrl-C."""

import sys
from pathlib import Path


def main() -> None:
    """Read a configuration from standard input, train it in a folder and write the results beside the folder."""
    try:
        _run(Path(sys.argv[1]))
    except KeyboardInterrupt:
        sys.exit(130)


def _run(folder: Path) -> None:
    # Imported here, because importing torch takes long enough for a Ctrl-C to arrive meanwhile.
    from seqloom import terminal
    from seqloom.comparison import trial
    from seqloom.config import parse
    from seqloom.interrupt import Interrupted
    from seqloom.run_config import Config

    text = sys.stdin.read()
    try:
        with terminal.TrainingProgress() as progress:
            results = trial.run_trial(Config.build(parse(text, "configuration")), folder, [progress])
    except Interrupted:
        sys.exit(130)
    except (ValueError, TypeError, OSError, RuntimeError, MemoryError, ModuleNotFoundError) as error:
        results = {"error": str(error) or type(error).__name__}
    trial.write_json(trial.results_path(folder), results)


if __name__ == "__main__":
    main()
