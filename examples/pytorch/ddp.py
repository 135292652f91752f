"""Data parallel: the model on every rank, gradients averaged while the backward pass runs."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from gpt import Gpt, batches, parse, train_step


def main():
    c = parse(__doc__)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    torch.manual_seed(0)
    with device:
        model = DistributedDataParallel(Gpt(c).bfloat16(), device_ids=[device.index])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step, (tokens, targets) in enumerate(batches(c, device, seed=dist.get_rank())):
        with torch.cuda.nvtx.range("iteration"):
            train_step(step, model, optimizer, tokens, targets)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
