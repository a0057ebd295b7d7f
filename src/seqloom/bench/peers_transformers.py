"""Marian in HF transformers."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import MarianConfig, MarianMTModel

from seqloom.bench.peers import BEGIN, END, PAD, Pairs, Sizes


class Marian:
    """Its dropout in attention is none, as in all published models."""

    def __init__(self, sizes: Sizes) -> None:
        self.smoothing = sizes.smoothing
        config = MarianConfig(
            vocab_size=sizes.vocabulary,
            d_model=sizes.width,
            encoder_layers=sizes.layers,
            decoder_layers=sizes.layers,
            encoder_attention_heads=sizes.heads,
            decoder_attention_heads=sizes.heads,
            encoder_ffn_dim=sizes.feed_forward,
            decoder_ffn_dim=sizes.feed_forward,
            activation_function="relu",
            dropout=sizes.dropout,
            scale_embedding=True,
            max_position_embeddings=512,
            pad_token_id=PAD,
            bos_token_id=BEGIN,
            eos_token_id=END,
            decoder_start_token_id=BEGIN,
            forced_eos_token_id=None,
        )
        self.model: Any = MarianMTModel(config)

    def loss(self, pairs: Pairs) -> Tensor:
        found = self.model(input_ids=pairs.source, attention_mask=pairs.mask, decoder_input_ids=pairs.before)
        target = pairs.target.flatten()
        return cross_entropy(found.logits.flatten(0, 1), target, ignore_index=PAD, label_smoothing=self.smoothing)

    @torch.inference_mode()
    def generate(self, source: Tensor, lengths: Tensor, *, width: int, length: int) -> Tensor:  # noqa: ARG002
        self.model.eval()
        found: Tensor = self.model.generate(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            num_beams=width,
            do_sample=False,
            min_new_tokens=length,
            max_new_tokens=length,
        )
        return found[:, 1:]


def transformer(sizes: Sizes) -> Marian:
    return Marian(sizes)
