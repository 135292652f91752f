"""A model of torchtitan 0.3 by its own trainer, with tokens that come from nowhere, so that no tokenizer or data set is needed.

Takes torchtitan's own flags, as `--module llama3 --config llama3_debugmodel --training.steps 6`.
"""

from dataclasses import dataclass

import torch
from torchtitan.components.dataloader import ParallelAwareDataloader
from torchtitan.components.tokenizer import BaseTokenizer
from torchtitan.config import ConfigManager
from torchtitan.models.common.config_utils import decoder_vocab_size
from torchtitan.tools.logging import init_logger


class RandomTokens(torch.utils.data.IterableDataset):

    def __init__(self, vocabulary, length, seed):
        self.vocabulary, self.length, self.seed = vocabulary, length, seed

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed)
        positions = torch.arange(self.length)
        while True:
            tokens = torch.randint(self.vocabulary, (self.length + 1,), generator=generator)
            yield {"input": tokens[:-1], "positions": positions}, tokens[1:]

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class RandomLoader(ParallelAwareDataloader):

    @dataclass(kw_only=True, slots=True)
    class Config(ParallelAwareDataloader.Config):
        vocabulary: int = 2048

    def __init__(self, config, *, dp_world_size, dp_rank, seq_len, local_batch_size, **_):
        super().__init__(RandomTokens(config.vocabulary, seq_len, dp_rank), dp_rank,
                         dp_world_size, batch_size=local_batch_size)


class NoTokenizer(BaseTokenizer):

    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        pass

    def __init__(self, config, *, tokenizer_path):
        super().__init__()

    def encode(self, *args, **kwargs):
        return []

    def decode(self, *args, **kwargs):
        return ""

    def get_vocab_size(self):
        return 0


class Configs(ConfigManager):

    def _load_config(self, args):
        config, rest = super()._load_config(args)
        config.dataloader = RandomLoader.Config(vocabulary=decoder_vocab_size(config.model_spec))
        config.tokenizer = NoTokenizer.Config()
        config.validator.enable = False
        return config, rest


def main():
    init_logger()
    trainer = Configs().parse_args().build()
    trainer.train()
    trainer.close()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
