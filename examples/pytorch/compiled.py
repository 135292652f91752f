"""One GPU, the blocks compiled by torch.compile: Inductor's Triton kernels."""

import torch

from gpt import Gpt, batches, parse, train_step


def main():
    c = parse(__doc__)
    device = torch.device("cuda")
    torch.manual_seed(0)
    model = Gpt(c).to(device, torch.bfloat16)
    for block in model.blocks:
        block.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    for step, (tokens, targets) in enumerate(batches(c, device, seed=0)):
        with torch.cuda.nvtx.range("iteration"):
            train_step(step, model, optimizer, tokens, targets)


if __name__ == "__main__":
    main()
