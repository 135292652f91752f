"""The blocks compiled by torch.compile: Inductor's Triton kernels; data parallel if there are
several ranks."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from gpt import Gpt, batches, parse, train_step


def main():
    c = parse(__doc__)
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    ranks, rank = int(os.environ.get("WORLD_SIZE", "1")), 0
    torch.manual_seed(0)
    model = Gpt(c).to(device, torch.bfloat16)
    for block in model.blocks:
        block.compile()
    if ranks > 1:
        dist.init_process_group("nccl")
        rank = dist.get_rank()
        model = DistributedDataParallel(model, device_ids=[device.index])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    for step, (tokens, targets) in enumerate(batches(c, device, seed=rank)):
        with torch.cuda.nvtx.range("iteration"):
            train_step(step, model, optimizer, tokens, targets)
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
