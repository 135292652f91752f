"""Trains a Llama, a Mixtral or a GPT-2 from random weights with Hugging Face's Trainer.

Takes all of TrainingArguments' flags: --fsdp, --deepspeed, --torch_compile, --optim, ...
"""

import dataclasses

import torch
from transformers import (AutoModelForCausalLM, GPT2Config, HfArgumentParser, LlamaConfig,
                          MixtralConfig, Trainer, TrainingArguments)

from random_tokens import RandomTokens


@dataclasses.dataclass
class ModelArguments:
    model: str = "llama"
    hidden: int = 256
    layers: int = 4
    heads: int = 8
    vocabulary: int = 8192
    sequence: int = 256
    lora: bool = False


def build(m):
    if m.model == "gpt2":
        config = GPT2Config(vocab_size=m.vocabulary, n_embd=m.hidden, n_layer=m.layers,
                            n_head=m.heads, n_positions=m.sequence)
    elif m.model == "mixtral":
        config = MixtralConfig(vocab_size=m.vocabulary, hidden_size=m.hidden,
                               intermediate_size=2 * m.hidden, num_hidden_layers=m.layers,
                               num_attention_heads=m.heads, num_key_value_heads=m.heads // 2,
                               max_position_embeddings=m.sequence, num_local_experts=8)
    else:
        config = LlamaConfig(vocab_size=m.vocabulary, hidden_size=m.hidden,
                             intermediate_size=3 * m.hidden, num_hidden_layers=m.layers,
                             num_attention_heads=m.heads, num_key_value_heads=m.heads // 2,
                             max_position_embeddings=m.sequence)
    model = AutoModelForCausalLM.from_config(config)
    if m.lora:
        from peft import LoraConfig, get_peft_model
        model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, task_type="CAUSAL_LM",
                                                 target_modules=["q_proj", "v_proj"]))
        model.print_trainable_parameters()
    return model


def main():
    m, arguments = HfArgumentParser((ModelArguments, TrainingArguments)) \
        .parse_args_into_dataclasses()
    torch.manual_seed(arguments.seed)
    trainer = Trainer(model=build(m), args=arguments,
                      train_dataset=RandomTokens(m.vocabulary, m.sequence))
    print(trainer.train().metrics, flush=True)
    print("peak", torch.cuda.max_memory_allocated(), "bytes allocated", flush=True)


if __name__ == "__main__":
    main()
