"""Runs the trainer that torchtitan had in December 2024, unmodified, with random tokens in
place of a tokenizer and a data set.

    torchtitan_train.py CHECKOUT FLAGS...

CHECKOUT is torchtitan's repository at 9dec370, whose `train.py` is called with FLAGS. Each of
its steps becomes an NVTX range. Attention is PyTorch's own, as it was then.
"""

import pathlib
import sys
import types

import torch

VOCABULARY = 128256  # Llama 3


class RandomTokens(torch.utils.data.IterableDataset):

    def __init__(self, length, seed):
        self.length, self.seed = length, seed

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed)
        while True:
            tokens = torch.randint(VOCABULARY, (self.length + 1,), generator=generator)
            yield tokens[:-1], tokens[1:]


class Loader(torch.utils.data.DataLoader):

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def loader(dataset, path, tokenizer, batch, length, dp_degree, dp_rank):
    return Loader(RandomTokens(length, dp_rank), batch_size=batch)


def main():
    checkout = pathlib.Path(sys.argv.pop(1)).resolve()
    # A package without __init__.py gives way to any torchtitan that is installed.
    package = types.ModuleType("torchtitan")
    package.__path__ = [str(checkout / "torchtitan")]
    sys.modules["torchtitan"] = package
    sys.path.insert(0, str(checkout))
    import train
    from torchtitan.config_manager import JobConfig

    train.build_tokenizer = lambda *_: types.SimpleNamespace(n_words=VOCABULARY)
    train.build_hf_data_loader = loader

    # What the trainer calls first and last in each step.
    collect, save = train.utils.GarbageCollection.run, train.CheckpointManager.save

    def begin_step(self, step):
        torch.cuda.nvtx.range_push("iteration")
        collect(self, step)

    def end_step(self, step, force=False):
        save(self, step, force)
        torch.cuda.nvtx.range_pop()

    train.utils.GarbageCollection.run = begin_step
    train.CheckpointManager.save = end_step
    # PyTorch of that month did not take cuDNN's attention (pytorch/pytorch#142132).
    torch.backends.cuda.enable_cudnn_sdp(False)
    config = JobConfig()
    config.parse_args()
    train.main(config)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
