"""FSDP2 with a distributed checkpoint in the middle: --save sync or async, read again at the end."""

import argparse
import os
import shutil

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.data import DataLoader, DistributedSampler

from random_tokens import RandomTokens

VOCABULARY, HIDDEN, SEQUENCE = 8192, 256, 256


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", default="sync", choices=["sync", "async"])
    parser.add_argument("--folder", default="checkpoint")
    flags = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl")
    torch.manual_seed(0)
    layers = [nn.TransformerEncoderLayer(HIDDEN, 8, 4 * HIDDEN, batch_first=True, norm_first=True)
              for _ in range(4)]
    model = nn.Sequential(nn.Embedding(VOCABULARY, HIDDEN), *layers,
                          nn.Linear(HIDDEN, VOCABULARY)).cuda()
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    for layer in layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

    def state():
        weights, moments = get_state_dict(model, optimizer)
        return {"model": weights, "optimizer": moments}

    data = RandomTokens(VOCABULARY, SEQUENCE)
    loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data), num_workers=2,
                        pin_memory=True, persistent_workers=True)
    saving = None
    for step, batch in zip(range(8), loader):
        tokens = batch["input_ids"].cuda(non_blocking=True)
        loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1).float(),
                                           tokens[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step == 4:
            if flags.save == "async":
                saving = dcp.async_save(state(), checkpoint_id=flags.folder)
            else:
                dcp.save(state(), checkpoint_id=flags.folder)
        if dist.get_rank() == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    if saving is not None:
        saving.result()
    read = state()
    dcp.load(read, checkpoint_id=flags.folder)
    set_state_dict(model, optimizer, model_state_dict=read["model"],
                   optim_state_dict=read["optimizer"])
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(flags.folder)
        print("read again", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
