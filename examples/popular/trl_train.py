"""Fine-tunes a small Llama with TRL, on random words: --method sft or dpo."""

import dataclasses
import random

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer, TrlParser

WORDS = [f"w{i}" for i in range(4000)]


@dataclasses.dataclass
class ScriptArguments:
    method: str = "sft"
    words: int = 200


def tokenizer():
    vocabulary = {word: i for i, word in enumerate(["<unk>", "<pad>", "<s>", "</s>", *WORDS])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>", pad_token="<pad>",
                                   bos_token="<s>", eos_token="</s>")


def model():
    return AutoModelForCausalLM.from_config(LlamaConfig(
        vocab_size=len(WORDS) + 4, hidden_size=256, intermediate_size=768, num_hidden_layers=4,
        num_attention_heads=8, num_key_value_heads=4, pad_token_id=1, bos_token_id=2,
        eos_token_id=3))


def main():
    script = TrlParser((ScriptArguments,)).parse_args_and_config(return_remaining_strings=True)
    arguments, rest = script
    generator = random.Random(0)

    def text():
        return " ".join(generator.choices(WORDS, k=arguments.words))

    torch.manual_seed(0)
    if arguments.method == "sft":
        (config,) = TrlParser((SFTConfig,)).parse_args_and_config(rest)
        trainer = SFTTrainer(model(), args=config, processing_class=tokenizer(),
                             train_dataset=Dataset.from_list([{"text": text()}
                                                              for _ in range(512)]))
    else:
        (config,) = TrlParser((DPOConfig,)).parse_args_and_config(rest)
        trainer = DPOTrainer(model(), ref_model=model(), args=config,
                             processing_class=tokenizer(), train_dataset=Dataset.from_list([
                                 {"prompt": text(), "chosen": text(), "rejected": text()}
                                 for _ in range(256)]))
    print(trainer.train().metrics, flush=True)


if __name__ == "__main__":
    main()
