"""A mixture of experts shared by --ep ranks, data parallel between groups. Each expert chooses its tokens, the first one
--skew times as many as the last."""

import os

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as collective
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from gpt import Gpt, batches, loss_of, parse


class Experts(nn.Module):
    """Takes the place of a block's two multiplies. Experts choose tokens (Zhou et al., 2022), so
    how many go where is known in advance; skewed, as trained routers are."""

    def __init__(self, c, count, skew, mesh):
        super().__init__()
        self.group, self.ranks = mesh.get_group(), mesh.size()
        self.mine = count // self.ranks
        self.first = mesh.get_local_rank() * self.mine
        self.router = nn.Linear(c.hidden, count, bias=False)
        self.up = nn.Parameter(torch.empty(self.mine, c.hidden, 4 * c.hidden))
        self.down = nn.Parameter(torch.empty(self.mine, 4 * c.hidden, c.hidden))
        weights = torch.linspace(skew, 1, count, device="cpu")
        tokens = 2 * c.batch * c.sequence  # every token goes to two experts, on average
        self.chosen = (tokens * weights / weights.sum()).long().tolist()

    def forward(self, x):
        flat = x.flatten(0, 1)
        scores = self.router(flat).float().softmax(dim=-1)
        picks = [scores[:, e].topk(n) for e, n in enumerate(self.chosen)]
        rows = torch.cat([pick.indices for pick in picks])
        sent = flat[rows]
        to = [sum(self.chosen[r * self.mine:(r + 1) * self.mine]) for r in range(self.ranks)]
        mine = self.chosen[self.first:self.first + self.mine]
        held = self.exchange(sent, [sum(mine)] * self.ranks, to)
        # From each rank its tokens for my first expert, then for the next one.
        parts = held.view(self.ranks, sum(mine), -1).split(mine, dim=1)
        done = [F.gelu(part.flatten(0, 1) @ up) @ down
                for part, up, down in zip(parts, self.up, self.down)]
        done = torch.cat([d.view(self.ranks, -1, d.shape[-1]) for d in done], dim=1)
        back = self.exchange(done.flatten(0, 1), to, [sum(mine)] * self.ranks)
        gates = torch.cat([pick.values for pick in picks]).to(back.dtype)
        return torch.zeros_like(flat).index_add(0, rows, back * gates[:, None]).view_as(x)

    def exchange(self, x, received, sent):
        out = x.new_empty(sum(received), x.shape[1])
        return collective.all_to_all_single(out, x, received, sent, group=self.group)


class Block(nn.Module):
    def __init__(self, block, experts):
        super().__init__()
        self.norm1, self.attention, self.norm2 = block.norm1, block.attention, block.norm2
        self.experts = experts

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.experts(self.norm2(x))


def main():
    c, ep, experts, skew = parse(__doc__, ep=4, experts=8, skew=4.0)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]) // ep, ep),
                            mesh_dim_names=("dp", "ep"))
    torch.manual_seed(0)
    with device:
        model = Gpt(c).bfloat16()
        for i, block in enumerate(model.blocks):
            model.blocks[i] = Block(block, Experts(c, experts, skew, mesh["ep"]).bfloat16())
    mine = [p for block in model.blocks for p in (block.experts.up, block.experts.down)]
    for parameter in mine:
        nn.init.normal_(parameter, std=0.02)
    fully_shard(model, ignored_params=set(mine))  # all but the experts
    optimizer = torch.optim.AdamW([p for n, p in model.named_parameters()
                                   if not n.endswith(("experts.up", "experts.down"))], lr=3e-4)
    expert_optimizer = torch.optim.AdamW(mine, lr=3e-4, fused=True)
    for step, (tokens, targets) in enumerate(batches(c, device, seed=dist.get_rank())):
        with torch.cuda.nvtx.range("iteration"):
            loss = loss_of(model(tokens), targets)
            loss.backward()
            for parameter in mine:
                dist.all_reduce(parameter.grad, dist.ReduceOp.AVG, group=mesh["dp"].get_group())
            optimizer.step()
            expert_optimizer.step()
            optimizer.zero_grad()
            expert_optimizer.zero_grad()
            if dist.get_rank() == 0:
                print(f"step {step} loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
