"""Random tokens for the programs beside it, as a data set of tensors or as a tokenizer's words."""

import torch


class RandomTokens(torch.utils.data.Dataset):
    """Sequences for a causal language model, made when they are read."""

    def __init__(self, vocabulary, length, samples=100_000):
        self.vocabulary, self.length, self.samples = vocabulary, length, samples

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(self.vocabulary, (self.length,), generator=generator)
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens}
