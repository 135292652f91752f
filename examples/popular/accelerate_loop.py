"""A training loop of one's own around Accelerate; `accelerate launch` states how it is distributed."""

import argparse

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, LlamaConfig, get_cosine_schedule_with_warmup

from random_tokens import RandomTokens


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=2)
    flags = parser.parse_args()
    accelerator = Accelerator(mixed_precision="bf16",
                              gradient_accumulation_steps=flags.accumulate)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(LlamaConfig(
        vocab_size=8192, hidden_size=256, intermediate_size=768, num_hidden_layers=4,
        num_attention_heads=8, num_key_value_heads=4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    loader = DataLoader(RandomTokens(8192, 256), batch_size=4, num_workers=2, shuffle=True)
    schedule = get_cosine_schedule_with_warmup(optimizer, 10, 1000)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    steps = 0
    for batch in loader:
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            steps += 1
            mean = accelerator.gather(loss.detach()).mean().item()
            accelerator.print(f"step {steps} loss {mean:.3f}", flush=True)
            if steps == flags.steps:
                break
    accelerator.end_training()


if __name__ == "__main__":
    main()
