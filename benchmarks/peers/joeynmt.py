"""JoeyNMT: its Transformer, and its recurrent model with attention (without input feeding, as for all peers)."""

import logging
from types import SimpleNamespace
from typing import Any

import torch
from joeynmt.model import build_model
from joeynmt.search import beam_search, greedy
from joeynmt.vocabulary import Vocabulary
from torch import Tensor

from benchmarks.peers.translation import BEGIN, END, FIRST, PAD, UNKNOWN, Batch, Sizes


class JoeyNMT:
    """A model built from its configuration."""

    def __init__(self, common: dict[str, Any], encoder: dict[str, Any], decoder: dict[str, Any], sizes: Sizes) -> None:
        special: dict[str, Any] = {
            "unk_token": "<unk>",
            "pad_token": "<pad>",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "sep_token": None,
            "lang_tags": [],
            "unk_id": UNKNOWN,
            "pad_id": PAD,
            "bos_id": BEGIN,
            "eos_id": END,
            "sep_id": None,
        }
        vocabulary = Vocabulary([], SimpleNamespace(**special))
        vocabulary.add_tokens([f"w{number}" for number in range(FIRST, sizes.vocabulary)])
        embeddings = {"embeddings": {"embedding_dim": sizes.width, "scale": True, "dropout": sizes.dropout}}
        configuration = {
            "tied_embeddings": True,
            "tied_softmax": True,
            "initializer": "xavier_uniform",
            "embed_initializer": "xavier_uniform",
            "encoder": {**common, **encoder, **embeddings},
            "decoder": {**common, **decoder, **embeddings},
        }
        logging.disable(logging.INFO)
        self.model: Any = build_model(configuration, vocabulary, vocabulary)
        logging.disable(logging.NOTSET)
        self.model.loss_function = ("crossentropy", sizes.label_smoothing)

    def loss(self, batch: Batch) -> Tensor:
        total, *_ = self.model(
            return_type="loss",
            src=batch.source,
            src_length=batch.lengths,
            src_mask=batch.mask.unsqueeze(1),
            trg_input=batch.decoder_input,
            trg=batch.target,
            trg_mask=(batch.target != PAD).unsqueeze(1),
        )
        loss: Tensor = total / batch.tokens
        return loss

    @torch.no_grad()
    def generate(self, source: Tensor, lengths: Tensor, *, beam_size: int, length: int) -> Tensor:
        self.model.eval()
        mask = (source != PAD).unsqueeze(1)
        memory, hidden, *_ = self.model(return_type="encode", src=source, src_length=lengths, src_mask=mask)
        search: dict[str, Any] = {
            "model": self.model,
            "encoder_output": memory,
            "encoder_hidden": hidden,
            "src_mask": mask,
            "max_output_length": length,
            "min_output_length": length,
        }
        outputs = greedy(**search) if beam_size == 1 else beam_search(**search, beam_size=beam_size, alpha=-1)
        return torch.as_tensor(outputs[0])


def transformer(sizes: Sizes) -> JoeyNMT:
    common = {
        "type": "transformer",
        "num_layers": sizes.layers,
        "num_heads": sizes.heads,
        "hidden_size": sizes.width,
        "ff_size": sizes.feed_forward,
        "dropout": sizes.dropout,
        "layer_norm": "pre",
    }
    return JoeyNMT(common, {}, {}, sizes)


def recurrent(sizes: Sizes) -> JoeyNMT:
    common = {
        "type": "recurrent",
        "rnn_type": "lstm",
        "num_layers": 1,
        "hidden_size": sizes.width,
        "dropout": sizes.dropout,
    }
    decoder = {"attention": "luong", "input_feeding": False, "init_hidden": "bridge", "hidden_dropout": sizes.dropout}
    return JoeyNMT(common, {"bidirectional": True}, decoder, sizes)
