"""Trains a GPT with Lightning: --strategy ddp or fsdp, with a validation and a checkpoint."""

import argparse
import tempfile

import lightning
import torch
from lightning.pytorch.strategies import FSDPStrategy
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from random_tokens import RandomTokens

VOCABULARY, HIDDEN, SEQUENCE = 8192, 256, 256


class Block(nn.TransformerEncoderLayer):

    def __init__(self):
        super().__init__(HIDDEN, 8, 4 * HIDDEN, activation="gelu", batch_first=True,
                         norm_first=True)


class Gpt(lightning.LightningModule):

    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, HIDDEN)
        self.position = nn.Embedding(SEQUENCE, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def loss(self, batch):
        tokens = batch["input_ids"]
        x = self.token(tokens) + self.position(torch.arange(SEQUENCE, device=self.device))
        mask = nn.Transformer.generate_square_subsequent_mask(SEQUENCE, device=self.device)
        for block in self.blocks:
            x = block(x, src_mask=mask.to(x.dtype), is_causal=True)
        logits = self.head(x)[:, :-1]
        return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())

    def training_step(self, batch, _):
        loss = self.loss(batch)
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        self.log("validation", self.loss(batch), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.trainer.model.parameters(), lr=3e-4)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--strategy", default="ddp", choices=["ddp", "fsdp"])
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--steps", type=int, default=8)
    flags = parser.parse_args()
    sharded = flags.strategy == "fsdp"
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            strategy=FSDPStrategy(auto_wrap_policy={Block}) if sharded else "ddp",
            accelerator="gpu", devices=flags.devices,
            precision="bf16-true" if sharded else "bf16-mixed", max_steps=flags.steps,
            val_check_interval=flags.steps, limit_val_batches=2, num_sanity_val_steps=0,
            gradient_clip_val=None if sharded else 1.0, default_root_dir=folder,
            enable_model_summary=False, log_every_n_steps=2)
        data = RandomTokens(VOCABULARY, SEQUENCE)
        trainer.fit(Gpt(), DataLoader(data, batch_size=8, num_workers=2, pin_memory=True),
                    DataLoader(data, batch_size=8))
        trainer.save_checkpoint(f"{folder}/last.ckpt")
        print("saved at step", trainer.global_step, flush=True)


if __name__ == "__main__":
    main()
