"""``python -m seqloom.compare FOLDER``: one trial, which ``child`` starts; Ctrl-C ends it quietly at any time."""

import sys
from pathlib import Path


def main() -> None:
    """Read a configuration from standard input, train it in a folder, and write what was measured beside it."""
    try:
        _run(Path(sys.argv[1]))
    except KeyboardInterrupt:
        sys.exit(130)


def _run(folder: Path) -> None:
    # Imported here: it takes so long that Ctrl-C may come meanwhile.
    from seqloom import terminal
    from seqloom.compare import trial
    from seqloom.config import parse
    from seqloom.interrupt import Interrupted
    from seqloom.run_config import Config

    text = sys.stdin.read()
    try:
        with terminal.Watch() as watch:
            found = trial.measure(Config.build(parse(text, "configuration")), folder, [watch])
    except Interrupted:
        sys.exit(130)
    except (ValueError, TypeError, OSError, RuntimeError, MemoryError, ModuleNotFoundError) as error:
        found = {"failed": str(error) or type(error).__name__}
    trial.write(trial.beside(folder), found)


if __name__ == "__main__":
    main()
