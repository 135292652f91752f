"""One GPU: the training that the other examples distribute."""

import torch

from gpt import Gpt, batches, parse, train_step


def main():
    c = parse(__doc__)
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = Gpt(c).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step, (tokens, targets) in enumerate(batches(c, "cuda", seed=0)):
        with torch.cuda.nvtx.range("iteration"):
            train_step(step, model, optimizer, tokens, targets)


if __name__ == "__main__":
    main()
