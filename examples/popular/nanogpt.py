"""A GPT as nanoGPT trains it: tokens in a file, accumulation, evaluation every few steps, its log."""

import argparse
import math
import os
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

VOCABULARY, BLOCK, EMBEDDING, HEADS, LAYERS, BATCH = 50304, 256, 256, 8, 4, 8


class CausalSelfAttention(nn.Module):

    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(EMBEDDING, 3 * EMBEDDING, bias=False)
        self.c_proj = nn.Linear(EMBEDDING, EMBEDDING, bias=False)

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (part.view(b, t, HEADS, c // HEADS).transpose(1, 2)
                   for part in self.c_attn(x).split(EMBEDDING, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))


class Block(nn.Module):

    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(EMBEDDING), nn.LayerNorm(EMBEDDING)
        self.attn = CausalSelfAttention()
        self.mlp = nn.Sequential(nn.Linear(EMBEDDING, 4 * EMBEDDING), nn.GELU(),
                                 nn.Linear(4 * EMBEDDING, EMBEDDING))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):

    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, EMBEDDING)
        self.wpe = nn.Embedding(BLOCK, EMBEDDING)
        self.h = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.ln_f = nn.LayerNorm(EMBEDDING)
        self.lm_head = nn.Linear(EMBEDDING, VOCABULARY, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        logits = self.lm_head(self.ln_f(self.h(x)))
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1), ignore_index=-1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max_iters", type=int, default=12)
    parser.add_argument("--eval_interval", type=int, default=5)
    parser.add_argument("--compile", action="store_true")
    flags = parser.parse_args()
    accumulation, device = 4, f"cuda:{os.environ.get('LOCAL_RANK', 0)}"
    ddp = int(os.environ.get("RANK", -1)) != -1
    if ddp:
        dist.init_process_group(backend="nccl")
    torch.cuda.set_device(device)
    master = not ddp or dist.get_rank() == 0
    torch.manual_seed(1337 + (dist.get_rank() if ddp else 0))
    torch.backends.cuda.matmul.allow_tf32 = True

    data = tempfile.NamedTemporaryFile(suffix=".bin")
    np.random.randint(0, 50257, 1 << 18).astype(np.uint16).tofile(data.name)

    def get_batch():
        tokens = np.memmap(data.name, dtype=np.uint16, mode="r")
        places = torch.randint(len(tokens) - BLOCK, (BATCH,))
        x = torch.stack([torch.from_numpy(tokens[i:i + BLOCK].astype(np.int64)) for i in places])
        y = torch.stack([torch.from_numpy(tokens[i + 1:i + 1 + BLOCK].astype(np.int64))
                         for i in places])
        return (part.pin_memory().to(device, non_blocking=True) for part in (x, y))

    autocast = torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16)
    model = GPT().to(device)
    scaler = torch.amp.GradScaler("cuda", enabled=False)
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
         {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}],
        lr=6e-4, betas=(0.9, 0.95), fused=True)
    if flags.compile:
        model = torch.compile(model)
    if ddp:
        model = DistributedDataParallel(model, device_ids=[int(os.environ["LOCAL_RANK"])])

    @torch.no_grad()
    def estimate_loss():
        model.eval()
        losses = torch.zeros(4)
        for k in range(4):
            x, y = get_batch()
            with autocast:
                losses[k] = model(x, y).item()
        model.train()
        return losses.mean()

    x, y = get_batch()
    then = time.time()
    for it in range(flags.max_iters):
        for group in optimizer.param_groups:
            group["lr"] = 6e-4 * 0.5 * (1 + math.cos(math.pi * it / flags.max_iters))
        if it % flags.eval_interval == 0 and master:
            print(f"step {it}: val loss {estimate_loss():.4f}")
        for micro_step in range(accumulation):
            if ddp:
                model.require_backward_grad_sync = micro_step == accumulation - 1
            with autocast:
                loss = model(x, y) / accumulation
            x, y = get_batch()
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        now = time.time()
        if master:
            print(f"iter {it}: loss {loss.item() * accumulation:.4f}, "
                  f"time {(now - then) * 1000:.2f}ms", flush=True)
        then = now
    if ddp:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
