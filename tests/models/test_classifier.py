"""Classifiers: hidden layers between the pooling and the output."""

import torch
from tests.contracts.registry import make_mask, noise, randomize
from torch import nn

from seqloom.models.classifier import Classifier, HeadConfig
from seqloom.models.encoder import Encoder, PrenetConfig, RecurrenceConfig, build_stack
from seqloom.models.pooling import POOLINGS


def build(head: HeadConfig) -> Classifier:
    encoder = Encoder(nn.Identity(), build_stack(PrenetConfig(), RecurrenceConfig(hidden_size=4), 3))
    model = Classifier(encoder, POOLINGS["max"](4), labels=2, head=head, dropout=0.5)
    randomize(model)
    return model.eval()


def test_hidden_layers_of_the_head() -> None:
    model = build(HeadConfig(layers=2, size=6, activation="tanh"))
    x, mask = noise(2, 5, 3), make_mask([5, 2], 5)
    first, second = (model.get_submodule(f"hidden.{index}") for index in (0, 3))
    vectors = model.pooling(model.encoder(x, mask))
    expected = model.output(torch.tanh(second(torch.tanh(first(vectors)))))
    assert torch.equal(model(x, mask), expected)
    assert [tuple(model.get_parameter(f"hidden.{index}.weight").shape) for index in (0, 3)] == [(6, 4), (6, 6)]


def test_without_hidden_layers_the_output_is_linear() -> None:
    model = build(HeadConfig())
    assert [name for name, _ in model.named_parameters() if not name.startswith("encoder.")] == [
        "output.weight",
        "output.bias",
    ]
