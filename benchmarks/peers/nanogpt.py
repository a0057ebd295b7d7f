"""A small GPT in plain PyTorch with nanoGPT's settings for a CPU, to compare with configs/shakespeare.toml.

4 layers, 4 heads, width 128, blocks of 64 characters, batches of 12, 2000 AdamW updates. ``SEQLOOM_DATA`` is the folder
of the data sets. Run it with ``python -m benchmarks.peers.nanogpt``.
"""

import gzip
import math
import os
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

LAYERS, HEADS, SIZE, BLOCK, BATCH, UPDATES, WARMUP = 4, 4, 128, 64, 12, 2000, 100
LEARNING_RATE, MIN_LEARNING_RATE = 1e-3, 1e-4


class Block(nn.Module):
    """A pre-norm Transformer block."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(SIZE), nn.LayerNorm(SIZE)
        self.attention, self.project = nn.Linear(SIZE, 3 * SIZE), nn.Linear(SIZE, SIZE)
        self.feed = nn.Sequential(nn.Linear(SIZE, 4 * SIZE), nn.GELU(), nn.Linear(4 * SIZE, SIZE))

    def forward(self, x: Tensor) -> Tensor:  # (B, T, D)
        parts = self.attention(self.first(x)).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
        attended = scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.project(attended)
        output: Tensor = x + self.feed(self.second(x))
        return output


class GPT(nn.Module):
    """A character-level GPT with learned positions and tied embeddings."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.embed, self.position = nn.Embedding(vocab_size, SIZE), nn.Embedding(BLOCK, SIZE)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)), nn.LayerNorm(SIZE))
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:  # (B, T) → (B, T, V)
        x = self.embed(tokens) + self.position.weight[: tokens.shape[1]]
        logits: Tensor = self.blocks(x) @ self.embed.weight.T
        return logits


def learning_rate(update: int) -> float:
    if update < WARMUP:
        return LEARNING_RATE * (update + 1) / (WARMUP + 1)
    progress = (update - WARMUP) / (UPDATES - WARMUP)
    return MIN_LEARNING_RATE + (LEARNING_RATE - MIN_LEARNING_RATE) * (1 + math.cos(math.pi * progress)) / 2


def main() -> None:
    """Train, and print the loss on the last tenth of the text, cut into blocks without overlap."""
    torch.manual_seed(1337)
    text = gzip.decompress(Path(os.environ["SEQLOOM_DATA"], "tiny_shakespeare/input.txt.gz").read_bytes()).decode()
    characters = sorted(set(text))
    indices = torch.tensor([characters.index(character) for character in text])
    train, dev = indices[: int(0.9 * len(indices))], indices[int(0.9 * len(indices)) :]
    model = GPT(len(characters))
    decayed = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    others = [parameter for parameter in model.parameters() if parameter.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=(0.9, 0.99), fused=True)
    started = time.monotonic()
    for update in range(UPDATES):
        starts = torch.randint(len(train) - BLOCK, (BATCH,))
        blocks = torch.stack([train[start : start + BLOCK + 1] for start in starts.tolist()])
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(update)
        optimizer.zero_grad()
        loss = cross_entropy(model(blocks[:, :-1]).flatten(0, 1), blocks[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if update % 200 == 0 or update == UPDATES - 1:
            seconds = time.monotonic() - started
            dev_loss = evaluate(model, dev)
            print(f"update {update + 1}  loss {loss.item():.4f}  dev {dev_loss:.4f}  {seconds:.0f} s", flush=True)


@torch.no_grad()
def evaluate(model: GPT, dev: Tensor) -> float:
    blocks = (len(dev) - 1) // BLOCK
    inputs, target = dev[: blocks * BLOCK].view(-1, BLOCK), dev[1 : blocks * BLOCK + 1].view(-1, BLOCK)
    return float(cross_entropy(model(inputs).flatten(0, 1), target.flatten()))


if __name__ == "__main__":
    main()
