"""The Marian model of Hugging Face transformers."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import MarianConfig, MarianMTModel

from benchmarks.peers.translation import BEGIN, END, PAD, Batch, Sizes


class Marian:
    """A Marian model without attention dropout, as in all published checkpoints."""

    def __init__(self, sizes: Sizes) -> None:
        self.label_smoothing = sizes.label_smoothing
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

    def loss(self, batch: Batch) -> Tensor:
        outputs = self.model(input_ids=batch.source, attention_mask=batch.mask, decoder_input_ids=batch.decoder_input)
        target = batch.target.flatten()
        return cross_entropy(
            outputs.logits.flatten(0, 1), target, ignore_index=PAD, label_smoothing=self.label_smoothing
        )

    @torch.inference_mode()
    def generate(self, source: Tensor, lengths: Tensor, *, beam_size: int, length: int) -> Tensor:  # noqa: ARG002
        self.model.eval()
        tokens: Tensor = self.model.generate(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            num_beams=beam_size,
            do_sample=False,
            min_new_tokens=length,
            max_new_tokens=length,
        )
        return tokens[:, 1:]


def transformer(sizes: Sizes) -> Marian:
    return Marian(sizes)
