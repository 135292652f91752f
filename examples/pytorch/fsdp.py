"""Fully sharded data parallel (FSDP2): parameters gathered block by block as they are needed."""

import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from gpt import Gpt, batches, parse, train_step


def main():
    c = parse(__doc__)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]),), mesh_dim_names=("dp",))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    torch.manual_seed(0)
    with torch.device("meta"):
        model = Gpt(c)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    model.to_empty(device=device)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    for step, (tokens, targets) in enumerate(batches(c, device, seed=mesh.get_rank())):
        with torch.cuda.nvtx.range("iteration"):
            train_step(step, model, optimizer, tokens, targets)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
