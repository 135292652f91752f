"""Pipeline parallel over --pp ranks: 1F1B, or interleaved with --stages per rank; data parallel between pipelines."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import (PipelineStage, Schedule1F1B,
                                          ScheduleInterleaved1F1B)

from gpt import Gpt, batches, loss_of, parse


class Stage(nn.Module):
    """A share of the blocks; the first stage embeds, the last one makes logits."""

    def __init__(self, whole, index, count):
        super().__init__()
        share = len(whole.blocks) // count
        self.blocks = whole.blocks[index * share:(index + 1) * share]
        self.token = whole.token if index == 0 else None
        self.position = whole.position if index == 0 else None
        self.norm = whole.norm if index == count - 1 else None
        self.head = whole.head if index == count - 1 else None
        self.checkpoint = whole.checkpoint

    def forward(self, x):
        if self.token is not None:
            x = self.token(x) + self.position(torch.arange(x.shape[1], device=x.device))
        x = Gpt.run_blocks(self, x)
        return x if self.head is None else self.head(self.norm(x))


def build(c, mesh, device, stages, micro_batches):
    """This rank's stages and what runs them."""
    pp, mine = mesh["pp"].size(), mesh["pp"].get_local_rank()
    size = c.batch // micro_batches
    tokens = torch.empty(size, c.sequence, dtype=torch.long, device="meta")
    # From PyTorch 2.15 on a stage compares whether its input requires a gradient, too.
    kind = {"dtype": torch.bfloat16, "device": "meta", "requires_grad": True}
    hidden = torch.empty(size, c.sequence, c.hidden, **kind)
    logits = torch.empty(size, c.sequence, c.vocabulary, **kind)
    with torch.device("meta"):
        whole = Gpt(c).bfloat16()
    count = pp * stages
    made = []
    for index in range(mine, count, pp):
        module = Stage(whole, index, count).to_empty(device=device)
        for parameter in module.parameters():
            nn.init.normal_(parameter, std=0.02)
        made.append(PipelineStage(module, index, count, device,
                                  input_args=hidden if index > 0 else tokens,
                                  output_args=logits if index == count - 1 else hidden,
                                  group=mesh["pp"].get_group()))
    if stages == 1:
        return made, Schedule1F1B(made[0], micro_batches, loss_fn=loss_of)
    return made, ScheduleInterleaved1F1B(made, micro_batches, loss_fn=loss_of)


def main():
    c, pp, stages, micro_batches = parse(__doc__, pp=4, stages=1, micro_batches=4)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]) // pp, pp),
                            mesh_dim_names=("dp", "pp"))
    torch.manual_seed(0)
    made, schedule = build(c, mesh, device, stages, micro_batches)
    first = mesh["pp"].get_local_rank() == 0
    last = mesh["pp"].get_local_rank() == pp - 1
    parameters = [p for stage in made for p in stage.submod.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=3e-4)
    for step, (tokens, targets) in enumerate(batches(c, device, mesh["dp"].get_local_rank())):
        with torch.cuda.nvtx.range("iteration"):
            losses = []
            schedule.step(*([tokens.contiguous()] if first else []), **(
                {"target": targets, "losses": losses} if last else {}))
            for parameter in parameters:
                dist.all_reduce(parameter.grad, dist.ReduceOp.AVG, group=mesh["dp"].get_group())
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            optimizer.zero_grad()
            if last and mesh["dp"].get_local_rank() == 0:
                print(f"step {step} loss {torch.stack(losses).mean().item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
