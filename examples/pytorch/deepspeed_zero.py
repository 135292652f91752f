"""ZeRO by DeepSpeed: --stage 1 shards the optimizer, 2 gradients as well, 3 weights as well.

DeepSpeed 0.19 from its wheel, with PyTorch's own AdamW: DeepSpeed's fused one is compiled at its first use.
"""

import os

import deepspeed
import torch

from gpt import Gpt, batches, loss_of, parse


def main():
    c, stage = parse(__doc__, stage=3)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    deepspeed.init_distributed("nccl")
    settings = {
        "train_micro_batch_size_per_gpu": c.batch,
        "zero_optimization": {"stage": stage, "overlap_comm": True},
        "bf16": {"enabled": True},
        "gradient_clipping": 1.0,
        "steps_per_print": 1 << 30,
    }
    torch.manual_seed(0)
    with deepspeed.zero.Init(config_dict_or_path=settings, enabled=stage == 3):
        model = Gpt(c)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
    for step, (tokens, targets) in enumerate(batches(c, device, torch.distributed.get_rank())):
        with torch.cuda.nvtx.range("iteration"):
            loss = loss_of(engine(tokens), targets)
            engine.backward(loss)
            engine.step()
            if torch.distributed.get_rank() == 0:
                print(f"step {step} loss {loss.item():.3f}", flush=True)
    engine.destroy()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
