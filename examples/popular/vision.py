"""Trains one of timm's image models on random images: `vision.py resnet50 [--no-cudnn]`."""

import argparse
import os

import timm
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--no-cudnn", action="store_true")
    parser.add_argument("--batch", type=int, default=8)
    flags = parser.parse_args()
    torch.backends.cudnn.enabled = not flags.no_cudnn
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    torch.manual_seed(0)
    model = DistributedDataParallel(timm.create_model(flags.model, num_classes=100).to(device),
                                    device_ids=[device.index])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    for step in range(8):
        images = torch.randn(flags.batch, 3, 224, 224).to(device)
        targets = torch.randint(100, (flags.batch,)).to(device)
        with torch.autocast("cuda", torch.bfloat16):
            loss = loss_of(model(images), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
