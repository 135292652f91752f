"""A GPT as people train it, small enough to read: what the examples beside it share.

Pre-norm blocks, causal attention by torch's scaled_dot_product_attention, GELU, weights in
bfloat16, blocks recomputed in the backward pass (--checkpoint).
"""

import argparse
import dataclasses

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


@dataclasses.dataclass
class Config:
    layers: int = 4
    hidden: int = 512
    heads: int = 8
    vocabulary: int = 8192
    sequence: int = 512
    batch: int = 4
    checkpoint: bool = False
    iterations: int = 3


def parse(description, **more):
    """The command line: one flag for each field of Config, and for each of `more`."""
    parser = argparse.ArgumentParser(description=description)
    for name, default in more.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    for field in dataclasses.fields(Config):
        if field.type is bool:
            parser.add_argument(f"--{field.name}", action="store_true")
        else:
            parser.add_argument(f"--{field.name}", type=field.type, default=field.default)
    flags = vars(parser.parse_args())
    extra = [flags.pop(name) for name in more]
    return (Config(**flags), *extra) if more else Config(**flags)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c.heads
        self.qkv = nn.Linear(c.hidden, 3 * c.hidden)
        self.out = nn.Linear(c.hidden, c.hidden)

    def forward(self, x):
        batch, sequence, _ = x.shape
        q, k, v = (part.view(batch, sequence, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(x).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, sequence, -1))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm1 = nn.LayerNorm(c.hidden)
        self.attention = Attention(c)
        self.norm2 = nn.LayerNorm(c.hidden)
        self.up = nn.Linear(c.hidden, 4 * c.hidden)
        self.down = nn.Linear(4 * c.hidden, c.hidden)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.checkpoint = c.checkpoint
        self.token = nn.Embedding(c.vocabulary, c.hidden)
        self.position = nn.Embedding(c.sequence, c.hidden)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.norm = nn.LayerNorm(c.hidden)
        self.head = nn.Linear(c.hidden, c.vocabulary, bias=False)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.run_blocks(self.token(tokens) + self.position(places))))

    def run_blocks(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpoint else block(x)
        return x


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def train_step(step, model, optimizer, tokens, targets):
    """One iteration; the first rank prints the loss."""
    loss = loss_of(model(tokens), targets)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    if not dist.is_initialized() or dist.get_rank() == 0:
        print(f"step {step} loss {loss.item():.3f}", flush=True)


def batches(c, device, seed):
    """Random tokens, made on the CPU and copied from page-locked memory."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(c.iterations):
        tokens = torch.randint(c.vocabulary, (c.batch, c.sequence + 1), generator=generator)
        tokens = tokens.pin_memory().to(device, non_blocking=True)
        yield tokens[:, :-1], tokens[:, 1:]
