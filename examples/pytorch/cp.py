"""Context parallel: --cp ranks share each sequence, keys and values go around; data parallel between groups."""

import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parallel import DistributedDataParallel

from gpt import Gpt, batches, parse, train_step


def main():
    c, cp = parse(__doc__, cp=4)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]) // cp, cp),
                            mesh_dim_names=("dp", "cp"))
    torch.manual_seed(0)
    with device:
        model = DistributedDataParallel(Gpt(c).bfloat16(), device_ids=[device.index])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step, (tokens, targets) in enumerate(batches(c, device, mesh["dp"].get_local_rank())):
        tokens, targets = tokens.contiguous(), targets.contiguous()
        with (torch.cuda.nvtx.range("iteration"), sdpa_kernel(SDPBackend.FLASH_ATTENTION),
              context_parallel(mesh["cp"], buffers=[tokens, targets], buffer_seq_dims=[1, 1])):
            train_step(step, model, optimizer, tokens, targets)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
