"""A multi-layer perceptron in low precision: --with float8 (torchao), int8-adam or nf4 (bitsandbytes)."""

import argparse

import torch
from torch import nn


def float8(net):
    from torchao.float8 import convert_to_float8_training
    return convert_to_float8_training(net), torch.optim.AdamW(net.parameters(), fused=True)


def int8_adam(net):
    import bitsandbytes
    return net, bitsandbytes.optim.AdamW8bit(net.parameters(), lr=1e-4)


def nf4(net):
    """Frozen weights in four bits, and a trained adapter before them."""
    import bitsandbytes
    width = net[0].in_features
    frozen = nn.Sequential(*(bitsandbytes.nn.Linear4bit(
        width, width, bias=False, compute_dtype=torch.bfloat16, quant_type="nf4")
        for _ in range(4))).cuda()
    adapter = nn.Linear(width, width, bias=False).cuda().bfloat16()
    return nn.Sequential(adapter, frozen), torch.optim.AdamW(adapter.parameters(), fused=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--with", dest="what", default="float8",
                        choices=["float8", "int8-adam", "nf4"])
    parser.add_argument("--width", type=int, default=2048)
    flags = parser.parse_args()
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Linear(flags.width, flags.width, bias=False) for _ in range(4)))
    net = net.cuda().bfloat16()
    net, optimizer = {"float8": float8, "int8-adam": int8_adam, "nf4": nf4}[flags.what](net)
    for step in range(8):
        x = torch.randn(4096, flags.width, device="cuda", dtype=torch.bfloat16)
        loss = net(x).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
