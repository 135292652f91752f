"""Tensor and sequence parallel by DTensor inside a group of --tp ranks, data parallel (FSDP2) between groups."""

import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput,
                                               RowwiseParallel, SequenceParallel,
                                               parallelize_module)

from gpt import Gpt, batches, parse, train_step

# Between the multiplies of a block, activations are sharded along the sequence.
BLOCK = {
    "norm1": SequenceParallel(),
    "attention": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
    "attention.qkv": ColwiseParallel(),
    "attention.out": RowwiseParallel(output_layouts=Shard(1)),
    "norm2": SequenceParallel(),
    "up": ColwiseParallel(input_layouts=Shard(1)),
    "down": RowwiseParallel(output_layouts=Shard(1)),
}
ENDS = {
    "token": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "position": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(0)),
    "norm": SequenceParallel(),
    "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
}


def main():
    c, tp = parse(__doc__, tp=2)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]) // tp, tp),
                            mesh_dim_names=("dp", "tp"))
    torch.manual_seed(0)
    with torch.device("meta"):
        model = Gpt(c)
    parallelize_module(model, mesh["tp"], ENDS)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        parallelize_module(block, mesh["tp"], BLOCK)
        block.attention.heads //= tp
        fully_shard(block, mesh=mesh["dp"], mp_policy=policy)
    fully_shard(model, mesh=mesh["dp"], mp_policy=policy)
    model.to_empty(device=device)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    # The ranks of a tensor-parallel group work on the same tokens.
    for step, (tokens, targets) in enumerate(batches(c, device, mesh["dp"].get_local_rank())):
        with torch.cuda.nvtx.range("iteration"):
            train_step(step, model, optimizer, tokens, targets)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
