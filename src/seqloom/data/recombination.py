"""New pairs of texts from the parts of known ones: good-enough compositional augmentation (Andreas 2020).

A fragment is a phrase of a source with its translation. The rest of the pair is a template, with a hole in the source
and one or more in the target. Fragments that fill the same template are interchangeable: one may fill the templates of
the other as well, which makes new pairs.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

from seqloom import files
from seqloom.data.readers.parallel import PairReader
from seqloom.data.readers.text_files import DataError

MIN_FILLERS = 2  # fragments that show that the holes of a template belong together
MISSES = 10_000  # draws in a row that give nothing new, after which there is little else

SOURCE, TARGET = "source", "target"
"""The names of the columns."""

Words = tuple[str, ...]
Context = tuple[Words, Words]  # before and after a phrase


class Fragment(NamedTuple):
    """A phrase of the source, and what stands for it in the target."""

    source: Words
    target: Words


class Template(NamedTuple):
    """A pair without a fragment; the target has a hole wherever the fragment's translation was."""

    source: Context
    target: tuple[Words, ...]  # before, between and after the holes

    def fill(self, fragment: Fragment) -> tuple[Words, Words]:
        """The pair with a fragment in the holes."""
        before, after = self.source
        first, *others = self.target
        return before + fragment.source + after, sum((fragment.target + part for part in others), first)


@dataclass(frozen=True)
class Recombination:
    """The interchangeable fragments of pairs.

    - The translation of a phrase is the longest sequence of words that is in the target whenever the phrase is in the
      source.
    - A template counts if it has two fillers whose translations occur in its holes only.
    - Two fragments are interchangeable if they share a template, and if no known pair contradicts it: if one fills a
      template of the other, and the source is known, its target is the known one.
    """

    pairs: Sequence[tuple[Words, Words]]
    max_source: int  # words of a phrase
    max_target: int  # words of its translation
    same_length: bool  # swap only phrases that have equally many words in the source

    @cached_property
    def targets(self) -> dict[Words, set[Words]]:
        """The known targets of each source."""
        targets: dict[Words, set[Words]] = defaultdict(set)
        for source, target in self.pairs:
            targets[source].add(target)
        return dict(targets)

    @cached_property
    def translations(self) -> dict[Words, list[Words]]:
        """What each phrase of the sources is translated to, if that is short enough."""
        texts: dict[Words, list[str]] = defaultdict(list)
        for source, target in self.pairs:
            text = _padded(target)
            for phrase in {source[start:end] for start, end in _spans(len(source), self.max_source)}:
                texts[phrase].append(text)
        common = {phrase: _longest_common(each, self.max_target) for phrase, each in texts.items()}
        return {phrase: translations for phrase, translations in common.items() if translations}

    @cached_property
    def templates(self) -> dict[Fragment, list[Template]]:
        """The templates that each fragment fills."""
        # Most templates have one filler. They are found by hashes, since all templates would not fit into memory.
        fillers: dict[int, set[Fragment]] = defaultdict(set)
        for fragment, template, is_clear in self._occurrences():
            if is_clear:
                fillers[hash(template)].add(fragment)
        shared = {key for key, fragments in fillers.items() if len(fragments) >= MIN_FILLERS}
        templates: dict[Fragment, dict[Template, None]] = defaultdict(dict)
        for fragment, template, _ in self._occurrences():
            if hash(template) in shared:
                templates[fragment][template] = None
        return {fragment: list(filled) for fragment, filled in templates.items()}

    @cached_property
    def interchangeable(self) -> dict[Fragment, list[Fragment]]:
        """The fragments whose templates each fragment may fill, if there are any."""
        fillers: dict[Template, list[Fragment]] = defaultdict(list)
        for fragment, templates in self.templates.items():
            for template in templates:
                fillers[template].append(fragment)
        others: dict[Fragment, dict[Fragment, None]] = defaultdict(dict)
        for fragments in fillers.values():
            for fragment in fragments:
                others[fragment].update(dict.fromkeys(fragments))
        contexts = self._contexts({fragment.source for fragment in others})
        allowed = {
            fragment: [
                other
                for other in candidates
                if other != fragment
                and (not self.same_length or len(other.source) == len(fragment.source))
                and not self._contradicted(fragment, self.templates[other], contexts[fragment.source])
            ]
            for fragment, candidates in others.items()
        }
        return {fragment: exchanged for fragment, exchanged in allowed.items() if exchanged}

    def sample(self, count: int, seed: int) -> Iterator[tuple[Words, Words]]:
        """Different pairs with new sources, at most ``count``; the rarer a fragment, the more of them."""
        generator = random.Random(seed)  # noqa: S311  nothing secret
        fragments = list(self.interchangeable)
        weights = list(accumulate(1 / len(self.templates[fragment]) for fragment in fragments))
        seen: set[Words] = set()
        misses = 0 if fragments else MISSES
        while len(seen) < count and misses < MISSES:
            (fragment,) = generator.choices(fragments, cum_weights=weights)
            other = generator.choice(self.interchangeable[fragment])
            source, target = generator.choice(self.templates[other]).fill(fragment)
            if source in self.targets or source in seen:
                misses += 1
                continue
            misses = 0
            seen.add(source)
            yield source, target

    def _occurrences(self) -> Iterator[tuple[Fragment, Template, bool]]:
        """All fragments of the pairs with their templates, and whether the translation occurs in the holes only."""
        for source, target in self.pairs:
            for start, end in _spans(len(source), self.max_source):
                for translation in self.translations.get(source[start:end], ()):
                    fragment = Fragment(source[start:end], translation)
                    for parts, is_clear in _with_holes(target, translation):
                        yield fragment, Template((source[:start], source[end:]), parts), is_clear

    def _contexts(self, phrases: set[Words]) -> dict[Words, dict[Context, set[Words]]]:
        """Where each of these phrases occurs, with the targets of the sources."""
        contexts: dict[Words, dict[Context, set[Words]]] = defaultdict(dict)
        for source, targets in self.targets.items():
            for start, end in _spans(len(source), self.max_source):
                if source[start:end] in phrases:
                    contexts[source[start:end]][source[:start], source[end:]] = targets
        return contexts

    @staticmethod
    def _contradicted(fragment: Fragment, templates: Sequence[Template], contexts: dict[Context, set[Words]]) -> bool:
        """Whether a fragment in some of the templates gives a known source another target."""
        return any(
            template.source in contexts and template.fill(fragment)[1] not in contexts[template.source]
            for template in templates
        )


def recombine(
    pairs: Iterable[tuple[str, str]],
    count: int,
    *,
    max_source: int = 3,
    max_target: int = 8,
    same_length: bool = True,
    seed: int = 1,
) -> list[tuple[str, str]]:
    """At most ``count`` new pairs of texts, whose words are separated by spaces."""
    words = list(dict.fromkeys((tuple(source.split()), tuple(target.split())) for source, target in pairs))
    recombination = Recombination(words, max_source, max_target, same_length)
    return [(" ".join(source), " ".join(target)) for source, target in recombination.sample(count, seed)]


def recombine_file(
    source: Path,
    output: Path,
    *,
    count: int = 0,  # 0: as many as the file has
    max_source: int = 3,
    max_target: int = 8,
    same_length: bool = True,
    seed: int = 1,
) -> tuple[int, int]:
    """Write the pairs of a file and new ones to a new TSV file; returns their numbers."""
    files.refuse_existing(output)
    pairs = []
    for pair in PairReader().read(source):
        if pair.target is None:
            raise DataError(pair.location, "no target; phrases are exchanged together with their translations")
        if len((pair.source + pair.target).splitlines()) > 1 or "\t" in pair.source + pair.target:
            raise DataError(pair.location, "found a tab or a line break within a text, which the output cannot hold")
        pairs.append((pair.source, pair.target))
    new = recombine(
        pairs,
        count or len(pairs),
        max_source=max_source,
        max_target=max_target,
        same_length=same_length,
        seed=seed,
    )
    if not new:
        raise DataError(
            str(source),
            "found no phrases that can be exchanged: two pairs have to be equal except for a phrase and its "
            "translation, which consist of words between spaces",
        )
    files.write(output, "".join(f"{left}\t{right}\n" for left, right in [(SOURCE, TARGET), *pairs, *new]))
    return len(pairs), len(new)


def _spans(length: int, longest: int) -> Iterator[tuple[int, int]]:
    """Start and end of all parts."""
    for start in range(length):
        for end in range(start + 1, min(start + longest, length) + 1):
            yield start, end


def _padded(words: Words) -> str:
    """With a space around each word, so that phrases are found by their text."""
    return f" {' '.join(words)} "


def _longest_common(texts: Iterable[str], longest: int) -> list[Words]:
    """The sequences of words that are in all texts and not part of longer ones that are; only short ones are given."""
    words = tuple(min(texts, key=len).split())
    common = {words[start:end]: None for start, end in _spans(len(words), len(words))}  # in a fixed order
    for text in dict.fromkeys(texts):
        common = {phrase: None for phrase in common if _padded(phrase) in text}
    extended = {part for phrase in common for part in (phrase[1:], phrase[:-1])}
    return [phrase for phrase in common if phrase not in extended and len(phrase) <= longest]


def _with_holes(words: Words, phrase: Words) -> Iterator[tuple[tuple[Words, ...], bool]]:
    """The words around the first or the last occurrences of a phrase or all, and whether there are no others."""
    size = len(phrase)
    places = [place for place in range(len(words) - size + 1) if words[place : place + size] == phrase]
    starts: list[int] = []
    for place in places:
        if not starts or place >= starts[-1] + size:
            starts.append(place)
    for count in range(1, len(starts) + 1):
        for chosen in {tuple(starts[:count]), tuple(starts[-count:])}:
            edges = [-size, *chosen, len(words)]
            parts = tuple(words[before + size : after] for before, after in pairwise(edges))
            yield parts, len(chosen) == len(places)
