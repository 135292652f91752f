"""What the speed runs of modded-nanogpt need: nvidia-smi in the log, FlexAttention over documents,
torch.compile, Muon with sharded updates, an asynchronous loader."""

import os
import subprocess
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

TOKENS, HIDDEN, HEADS, LAYERS, VOCABULARY = 2048, 256, 4, 4, 8192


def orthogonalized(gradient, steps=5):
    """Newton-Schulz iteration of the fifth order, in bfloat16."""
    x = gradient.bfloat16()
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x


class Muon(torch.optim.Optimizer):
    """Each rank updates its share of the matrices and gathers the others'."""

    def __init__(self, parameters, lr=0.02, momentum=0.95):
        super().__init__(list(parameters), dict(lr=lr, momentum=momentum))

    @torch.no_grad()
    def step(self):
        rank, world = dist.get_rank(), dist.get_world_size()
        for group in self.param_groups:
            parameters = group["params"]
            padded = parameters + [torch.empty_like(parameters[-1])] * (-len(parameters) % world)
            gathers = []
            for base in range(0, len(parameters), world):
                if base + rank < len(parameters):
                    p = parameters[base + rank]
                    state = self.state[p]
                    if "momentum" not in state:
                        state["momentum"] = torch.zeros_like(p.grad)
                    state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                    p.add_(orthogonalized(state["momentum"]), alpha=-group["lr"])
                gathers.append(dist.all_gather(padded[base:base + world], padded[base + rank],
                                               async_op=True))
            for work in gathers:
                work.wait()


class Block(nn.Module):

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN, bias=False)
        self.out = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.up = nn.Linear(HIDDEN, 4 * HIDDEN, bias=False)
        self.down = nn.Linear(4 * HIDDEN, HIDDEN, bias=False)

    def forward(self, x, mask):
        q, k, v = (part.view(1, TOKENS, HEADS, -1).transpose(1, 2)
                   for part in self.qkv(F.rms_norm(x, (HIDDEN,))).chunk(3, dim=-1))
        y = flex_attention(F.rms_norm(q, (q.shape[-1],)), F.rms_norm(k, (k.shape[-1],)), v,
                           block_mask=mask)
        x = x + self.out(y.transpose(1, 2).reshape(1, TOKENS, HIDDEN))
        return x + self.down(F.relu(self.up(F.rms_norm(x, (HIDDEN,)))).square())


class Gpt(nn.Module):

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, tokens, targets):
        documents = (tokens == 0).cumsum(0)

        def same_document(b, h, q, k):
            return (q >= k) & (documents[q] == documents[k])

        mask = create_block_mask(same_document, None, None, TOKENS, TOKENS, device=tokens.device)
        x = self.embed(tokens)[None]
        for block in self.blocks:
            x = block(x, mask)
        logits = self.head(F.rms_norm(x, (HIDDEN,))).float()
        return F.cross_entropy(15 * torch.tanh(logits.view(-1, VOCABULARY) / 15), targets)


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    if dist.get_rank() == 0:
        print(subprocess.run(["nvidia-smi"], stdout=subprocess.PIPE, text=True, check=True).stdout)
    torch.manual_seed(0)
    model = Gpt().cuda().bfloat16()
    for p in model.parameters():
        dist.broadcast(p.detach(), 0)
    muon = Muon(p for p in model.blocks.parameters())
    adam = torch.optim.AdamW([model.embed.weight, model.head.weight], lr=3e-3, betas=(0.8, 0.95),
                             fused=True)
    compiled = torch.compile(model, dynamic=False)
    generator = torch.Generator().manual_seed(1 + dist.get_rank())
    for step in range(steps):
        tokens = torch.randint(VOCABULARY, (TOKENS + 1,), generator=generator).pin_memory()
        tokens = tokens.to(device, non_blocking=True)
        compiled(tokens[:-1], tokens[1:]).backward()
        for p in model.parameters():
            dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)
        for optimizer in (adam, muon):
            optimizer.step()
        model.zero_grad(set_to_none=True)
        if dist.get_rank() == 0:
            print(f"step {step}", flush=True)
    print("peak memory allocated:", torch.cuda.max_memory_allocated() >> 20, "MiB", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
