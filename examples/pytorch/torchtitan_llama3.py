"""Llama 3 by torchtitan: its trainer, with tokens that come from nowhere, so that no tokenizer or data set is needed.

Takes torchtitan's own flags (`--parallelism.tensor_parallel_degree 2`), torchtitan 0.2.
"""

import dataclasses
import sys

import torch
from torchtitan.components.dataloader import ParallelAwareDataloader
from torchtitan.config import ConfigManager
from torchtitan.protocols.train_spec import get_train_spec, register_train_spec
from torchtitan.tools.logging import init_logger
from torchtitan.train import Trainer


class RandomTokens(torch.utils.data.IterableDataset):

    def __init__(self, vocabulary, length, seed):
        self.vocabulary, self.length, self.seed = vocabulary, length, seed

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed)
        while True:
            tokens = torch.randint(self.vocabulary, (self.length + 1,), generator=generator)
            yield {"input": tokens[:-1]}, tokens[1:]

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def loader(dp_world_size, dp_rank, tokenizer, job_config):
    c = job_config
    vocabulary = get_train_spec("llama3").model_args[c.model.flavor].vocab_size
    return ParallelAwareDataloader(RandomTokens(vocabulary, c.training.seq_len, dp_rank),
                                   dp_rank, dp_world_size, batch_size=c.training.local_batch_size)


class NamedSteps(Trainer):

    def train_step(self, data):
        with torch.cuda.nvtx.range("iteration"):
            super().train_step(data)


def main():
    register_train_spec("llama3_random_tokens", dataclasses.replace(
        get_train_spec("llama3"), build_tokenizer_fn=None, build_dataloader_fn=loader))
    init_logger()
    trainer = NamedSteps(ConfigManager().parse_args(
        ["--model.name", "llama3_random_tokens", *sys.argv[1:]]))
    trainer.train()
    trainer.close()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
