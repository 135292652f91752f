"""Pretrains a small Pythia of litgpt's with Fabric: FSDP, chunked loss."""

import argparse

import lightning as L
import torch
from lightning.fabric.strategies import FSDPStrategy
from litgpt.config import Config
from litgpt.model import GPT, Block
from litgpt.utils import chunked_cross_entropy
from torch.utils.data import DataLoader

from random_tokens import RandomTokens


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--steps", type=int, default=8)
    flags = parser.parse_args()
    fabric = L.Fabric(devices=flags.devices, accelerator="cuda", precision="bf16-mixed",
                      strategy=FSDPStrategy(auto_wrap_policy={Block}, state_dict_type="full"))
    fabric.launch()
    fabric.seed_everything(42)
    config = Config.from_name("pythia-14m", block_size=256)
    with fabric.init_module(empty_init=False):
        model = GPT(config)
    model = fabric.setup(model)
    optimizer = fabric.setup_optimizers(torch.optim.AdamW(model.parameters(), lr=4e-4,
                                                          fused=fabric.world_size == 1))
    loader = fabric.setup_dataloaders(
        DataLoader(RandomTokens(config.vocab_size, config.block_size + 1), batch_size=4))
    for step, batch in zip(range(flags.steps), loader):
        tokens = batch["input_ids"]
        loss = chunked_cross_entropy(model(tokens[:, :-1].contiguous()),
                                     tokens[:, 1:].contiguous(), chunk_size=0)
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()
        optimizer.zero_grad()
        fabric.print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
