"""An explanation for people and programs: printed, and drawn in a folder."""

import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from seqloom import terminal
from seqloom.insight.alignment import literal, visible
from seqloom.insight.explanation import Explanation, draw, show
from seqloom.insight.plots import draw_gates
from seqloom.insight.trace import Trace

Traced = Sequence[tuple[Trace, list[str]]]
"""What happened in layers, and the names of the steps."""


def tell(found: Explanation, folder: Path, *, traced: Traced = (), as_json: bool = False) -> None:
    """Print an explanation, and draw it in a folder."""
    if not as_json:
        show(found)
    pictures = picture(found, folder, traced=traced)
    if as_json:
        terminal.say(json.dumps({**found.data(), "pictures": list(map(str, pictures))}))
    elif pictures:
        terminal.say("", f"Pictures: {', '.join(map(str, pictures))}")


def picture(found: Explanation, folder: Path, *, traced: Traced = ()) -> list[Path]:
    """Draw what there is to draw in a folder, if there is something to draw with: the files."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")  # letters that the font does not have are boxes
            pictures = draw(found, folder)
            for each, labels in traced:
                pictures.append(folder / f"gates-{each.name}.png")
                draw_gates(each, pictures[-1], labels=[literal(visible(label)) for label in labels] or None)
    except ModuleNotFoundError as error:
        sys.stderr.write(f"No pictures, since {error.name} is missing: pip install 'seqloom[plots]'\n")
        return []
    except OSError as error:
        raise ValueError(f"cannot write into {folder}: {error.strerror}; choose another folder with --output") from None
    return pictures
