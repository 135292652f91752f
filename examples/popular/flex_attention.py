"""Attention within a sliding window by FlexAttention, compiled, forward and backward."""

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

SEQUENCE, HEADS, WIDTH, WINDOW = 4096, 8, 64, 512


def main():
    def windowed(b, h, q, k):
        return (q >= k) & (q - k < WINDOW)

    mask = create_block_mask(windowed, None, None, SEQUENCE, SEQUENCE, device="cuda")
    attention = torch.compile(flex_attention)
    weight = torch.randn(HEADS * WIDTH, 3 * HEADS * WIDTH, device="cuda", dtype=torch.bfloat16,
                         requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for step in range(8):
        x = torch.randn(1, SEQUENCE, HEADS * WIDTH, device="cuda", dtype=torch.bfloat16)
        q, k, v = (part.view(1, SEQUENCE, HEADS, WIDTH).transpose(1, 2)
                   for part in (x @ weight).chunk(3, dim=-1))
        attention(q, k, v, block_mask=mask).float().pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}", flush=True)


if __name__ == "__main__":
    main()
