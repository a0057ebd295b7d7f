"""All searches: the configuration types of tasks, and a search by its name or by the text of an option.

Each search has a file of its own in ``tokens`` or ``frames``; the file's name is its name in a configuration.
"""

from difflib import get_close_matches
from typing import Annotated, get_args

from pydantic import Field

from seqloom.config import parse_section
from seqloom.decoding.frames.best_path import BestPath
from seqloom.decoding.frames.frame_search import FrameSearch
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.greedy import Greedy
from seqloom.decoding.tokens.sample import Sample
from seqloom.decoding.tokens.search import Search

TokenSearchConfig = Annotated[Greedy | Beam | Sample, Field(discriminator="name")]
"""Searches of decoders, one token after the other."""

FrameSearchConfig = Annotated[BestPath | PrefixBeam, Field(discriminator="name")]
"""Searches of CTC models, over frames."""

TranscriptSearchConfig = Annotated[BestPath | PrefixBeam | Greedy | Beam, Field(discriminator="name")]
"""Searches of transcribers: over the frames of CTC, or with a decoder."""

SEARCHES: dict[str, type[Search] | type[FrameSearch]] = {
    kind.model_fields["name"].default: kind
    for config in (TokenSearchConfig, FrameSearchConfig)
    for kind in get_args(get_args(config)[0])
}
"""Every search by its name."""


def find(name: str) -> type[Search] | type[FrameSearch]:
    """The search with this name; the error for an unknown name suggests the nearest one."""
    if name not in SEARCHES:
        near = get_close_matches(name, SEARCHES, n=1, cutoff=0.5)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(f"unknown search {name!r}{hint}, expected one of {', '.join(SEARCHES)}")
    return SEARCHES[name]


def parse_search(text: str) -> Search | FrameSearch:
    """The search that an option describes, such as ``beam size=5 nbest=3``."""
    name, *pairs = text.split() or [""]
    if invalid := [pair for pair in pairs if "=" not in pair]:
        raise ValueError(f"--search contains {invalid[0]!r}, expected a name and key=value pairs such as 'beam size=5'")
    return parse_section(find(name), "search", pairs)
