"""One GPU: the training loop that the other examples distribute."""

import torch

from gpt import Gpt, batches, loss_of, parse


def main():
    c = parse(__doc__)
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = Gpt(c).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step, (tokens, targets) in enumerate(batches(c, "cuda", seed=0)):
        with torch.cuda.nvtx.range("iteration"):
            loss = loss_of(model(tokens), targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            print(f"step {step} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
