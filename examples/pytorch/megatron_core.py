"""A GPT by Megatron-core: tensor and sequence parallel, 1F1B pipeline, distributed optimizer; with
--experts, a mixture of them in each block, shared by --ep ranks.

Megatron-core 0.16 from its wheel, with its layers that need neither Transformer Engine nor Apex.
"""

import os

import torch
import torch.distributed as dist
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import (DistributedDataParallel, DistributedDataParallelConfig,
                                       finalize_model_grads)
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.moe.router import TopKRouter
from megatron.core.transformer.transformer_block import (TransformerBlockSubmodules,
                                                         get_num_layers_to_build)
from torch.nn import functional as F

from gpt import batches, parse


class Norm(torch.nn.RMSNorm):
    """RMSNorm whose weight's gradient is summed over the ranks that share a sequence."""

    def __init__(self, config, hidden_size, eps=1e-5, **_):
        super().__init__(hidden_size, eps)
        self.weight.sequence_parallel = config.sequence_parallel


class Router(TopKRouter):
    """Its own scores look for a function of Transformer Engine's, whether there is one or not."""

    def gating(self, input):  # pylint: disable=redefined-builtin
        return F.linear(input, self.weight.to(input.dtype))


def layers(config):
    """What a stage consists of: Megatron-core's layers that need no other package."""
    spec = get_gpt_layer_local_spec(num_experts=config.num_moe_experts, normalization="RMSNorm")
    spec.submodules.input_layernorm = spec.submodules.pre_mlp_layernorm = Norm
    if config.num_moe_experts is not None:
        spec.submodules.mlp.submodules.router = Router
    return TransformerBlockSubmodules([spec] * get_num_layers_to_build(config), Norm)


def mixture(experts, ep):
    """Each token goes to two experts, each of which takes as many as its even share."""
    if experts == 0:
        return {}
    return {"num_moe_experts": experts, "expert_model_parallel_size": ep, "moe_router_topk": 2,
            "moe_token_dispatcher_type": "alltoall", "moe_expert_capacity_factor": 1.0,
            "moe_pad_expert_input_to_capacity": True, "add_bias_linear": False}


def build(c, tp, pp, experts, ep):
    """This rank's stage of the model, its gradients' buckets and the optimizer."""
    config = TransformerConfig(
        num_layers=c.layers, hidden_size=c.hidden, num_attention_heads=c.heads,
        tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp,
        sequence_parallel=tp > 1, normalization="RMSNorm", bf16=True,
        params_dtype=torch.bfloat16, pipeline_dtype=torch.bfloat16,
        recompute_granularity="full" if c.checkpoint else None,
        recompute_method="uniform" if c.checkpoint else None,
        recompute_num_layers=1 if c.checkpoint else None,
        masked_softmax_fusion=False, gradient_accumulation_fusion=False, **mixture(experts, ep))
    model = GPTModel(
        config=config,
        transformer_layer_spec=layers(config),
        vocab_size=c.vocabulary, max_sequence_length=c.sequence,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage()).cuda().bfloat16()
    model = DistributedDataParallel(
        config, DistributedDataParallelConfig(use_distributed_optimizer=True,
                                              overlap_grad_reduce=True), model)
    config.finalize_model_grads_func = finalize_model_grads
    config.no_sync_func = model.no_sync
    config.grad_sync_func = model.start_grad_sync
    optimizer = get_megatron_optimizer(
        OptimizerConfig(optimizer="adam", lr=3e-4, bf16=True, params_dtype=torch.bfloat16,
                        use_distributed_optimizer=True, clip_grad=1.0), [model],
        use_gloo_process_groups=False)
    return model, optimizer


def micro_batches(c, count, device):
    """One iterator per iteration, over its micro-batches."""
    mask = torch.ones(c.sequence, c.sequence, dtype=torch.bool, device=device).triu(1)[None, None]
    places = torch.arange(c.sequence, device=device).expand(c.batch // count, -1)
    for tokens, targets in batches(c, device, parallel_state.get_data_parallel_rank()):
        yield ((t.contiguous(), places, mask, l.contiguous())
               for t, l in zip(tokens.chunk(count), targets.chunk(count)))


def forward(data, model):
    tokens, places, mask, labels = next(data)
    losses = model(tokens, places, mask, labels=labels)

    def mean(output):
        loss = output.float().mean()
        return loss, {"loss": loss.detach()}

    return losses, mean


def main():
    c, tp, pp, count, experts, ep = parse(__doc__, tp=2, pp=2, micro_batches=4, experts=0, ep=1)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    parallel_state.initialize_model_parallel(tp, pp, expert_model_parallel_size=ep,
                                             create_gloo_process_groups=False)
    tensor_parallel.model_parallel_cuda_manual_seed(1234)
    model, optimizer = build(c, tp, pp, experts, ep)
    run = get_forward_backward_func()
    for step, data in enumerate(micro_batches(c, count, device)):
        with torch.cuda.nvtx.range("iteration"):
            model.zero_grad_buffer()
            optimizer.zero_grad()
            losses = run(forward_step_func=forward, data_iterator=data, model=model,
                         num_microbatches=count, seq_length=c.sequence,
                         micro_batch_size=c.batch // count, forward_only=False)
            _, norm, _ = optimizer.step()
            if losses and dist.get_rank() == dist.get_world_size() - 1:
                loss = torch.stack([part["loss"] for part in losses]).mean().item()
                print(f"step {step} loss {loss:.3f} gradient norm {norm:.3f}", flush=True)
    parallel_state.destroy_model_parallel()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
