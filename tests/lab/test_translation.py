"""The made-up language pair: translations by hand, batches, accuracy, and a model that learns it."""

import torch

from seqloom.lab.long_sentences import LongSentences
from seqloom.lab.translation import END, Language, collate, translate, word_accuracy


def test_words_are_replaced_and_pairs_change_places() -> None:
    language = Language(words=6)  # 3 … 8, of which 6, 7 and 8 change places with the next word
    assert language.translate([3, 4, 5]) == [4, 5, 6]
    assert language.translate([6, 3, 4]) == [4, 7, 5]
    assert language.translate([7, 8, 3]) == [3, 8, 4]  # the second of a pair does not move again
    assert language.translate([3, 8]) == [4, 3]  # nothing follows the last word
    assert Language(words=6, reordering=False).translate([6, 3]) == [7, 4]
    assert language.translate([]) == []


def test_pairs_have_the_lengths_and_words_asked_for() -> None:
    language = Language(words=5)
    pairs = language.pairs(50, lengths=[2, 7], draw=torch.Generator().manual_seed(1))
    assert {len(source) for source, _ in pairs} == {2, 7} == {len(target) for _, target in pairs}
    assert {word for source, _ in pairs for word in source} == set(range(3, 8))
    assert all(sorted(language.translate(source)) == sorted(target) for source, target in pairs)


def test_sources_are_reversed_before_their_end() -> None:
    pairs = [([3, 4, 5], [6, 7, 8]), ([9], [10])]
    batch = collate(pairs, reverse=True)
    assert batch.inputs.values.tolist() == [[5, 4, 3, END], [9, END, 0, 0]]
    assert batch.target.values.tolist() == [[6, 7, 8, END], [10, END, 0, 0]]
    assert batch.items == 6
    assert collate(pairs).inputs.values[0].tolist() == [3, 4, 5, END]


def test_accuracy_counts_edits() -> None:
    pairs = [([3], [3, 4, 5, 6]), ([3], [7, 8, 9, 10])]
    assert word_accuracy([[3, 4, 5, 6], [7, 8, 9, 10]], pairs) == 1
    assert word_accuracy([[3, 4, 6], [7, 8, 11, 10]], pairs) == 1 - 2 / 8  # a missing and a wrong word
    assert word_accuracy([[1] * 20, []], pairs) == 0


def test_a_model_with_attention_learns_the_language() -> None:
    experiment = LongSentences(words=5, hidden_size=32, batch_size=16, updates=120, learning_rate=2e-2, sentences=50)
    model, draw = experiment.train_translator(1, lengths=(2, 3), attention="soft", bidirectional=True)
    pairs = experiment.new_pairs(3, draw)
    assert word_accuracy(translate(model, pairs), pairs) > 0.8  # chance: 0.2
