"""Published training runs as configurations of gpt_trainer, without what was measured.

Each row states where the configuration is documented; what is documented nowhere is
predicted in several ways (`variant`) or stated in `assumed`.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class PublishedRun:
    table: str            # file name of the measured rows, without .csv
    model: str            # the row's name there
    variant: str          # which of the row's figures, or which reading of the source
    gpu: str
    layers: int
    hidden: int
    heads: int
    sequence: int
    vocab: int
    tp: int
    pp: int
    dp: int
    chunks: int           # of layers per pipeline rank (interleaved 1F1B)
    micro_batch: int
    micro_batches: int    # per data-parallel rank
    recompute: str
    attention: str = "batched"
    overlap_tp: bool = True

    @property
    def gpus(self):
        return self.tp * self.pp * self.dp

    @property
    def batch(self):
        return self.micro_batch * self.micro_batches * self.dp

    @property
    def name(self):
        return f"{self.table}/{self.model}/{self.variant}"

    def layout(self):
        return f"tp={self.tp},dp={self.dp},pp={self.pp}"

    def arguments(self):
        words = ["--layers", self.layers, "--hidden", self.hidden, "--heads", self.heads,
                 "--sequence", self.sequence, "--vocab", self.vocab, "--tp", self.tp,
                 "--pp", self.pp, "--dp", self.dp, "--micro-batch-size", self.micro_batch,
                 "--micro-batches", self.micro_batches, "--recompute", self.recompute,
                 "--attention", self.attention, "--iterations", 2]
        if self.chunks > 1:
            words += ["--virtual-stages", self.chunks]
        if self.overlap_tp and self.tp > 1:
            words += ["--overlap-tp"]
        return [str(word) for word in words]

    def model_flops(self):
        """Of an iteration, without recomputation: Korthikanti et al. 2022, equation 7."""
        return (72 * self.batch * self.layers * self.sequence * self.hidden ** 2
                * (1 + self.sequence / (6 * self.hidden)
                   + self.vocab / (12 * self.hidden * self.layers)))


def korthikanti():
    """arXiv 2205.05198, tables 3 and 5: sequence 2,048, vocabulary 51,200, no data
    parallelism. Megatron-LM of that time overlaps the communication of tensor parallelism
    with the weight gradients' products. The trainer has no tensor parallelism without
    sequence parallelism, which the full recompute rows of the paper do not use."""
    for model, layers, hidden, heads, pp, chunks, micro_batch, micro_batches in (
            ("22B", 48, 6144, 64, 1, 1, 4, 1),
            ("175B (GPT-3)", 96, 12288, 96, 8, 3, 1, 64),
            ("530B (MT-NLG)", 105, 20480, 128, 35, 3, 1, 280),
            ("1T", 128, 25600, 160, 64, 1, 1, 512)):
        for recompute in ("full", "selective"):
            yield PublishedRun("korthikanti2022_table5_a100", model, recompute, "a100",
                               layers, hidden, heads, 2048, 51200, 8, pp, 1, chunks,
                               micro_batch, micro_batches, recompute)


def narayanan():
    """arXiv 2104.04473, table 1; micro-batches and interleaving from Megatron-LM,
    examples/sc21/run_table_1.sh: layers per virtual stage 5, 5, 3 and 1 for 76B, 145B, 310B
    and 530B. Layers are recomputed; nothing overlaps with tensor-parallel communication."""
    for model, layers, hidden, heads, tp, pp, gpus, batch, micro_batch, chunk in (
            ("1.7", 24, 2304, 24, 1, 1, 32, 512, 16, 0),
            ("3.6", 30, 3072, 32, 2, 1, 64, 512, 16, 0),
            ("7.5", 36, 4096, 32, 4, 1, 128, 512, 16, 0),
            ("18.4", 40, 6144, 48, 8, 1, 256, 1024, 8, 0),
            ("39.1", 48, 8192, 64, 8, 2, 512, 1536, 4, 0),
            ("76.1", 60, 10240, 80, 8, 4, 1024, 1792, 2, 5),
            ("145.6", 80, 12288, 96, 8, 8, 1536, 2304, 2, 5),
            ("310.1", 96, 16384, 128, 8, 16, 1920, 2160, 1, 3),
            ("529.6", 105, 20480, 128, 8, 35, 2520, 2520, 1, 1),
            ("1008.0", 128, 25600, 160, 8, 64, 3072, 3072, 1, 0)):
        dp = gpus // (tp * pp)
        chunks = layers // pp // chunk if chunk else 1
        yield PublishedRun("narayanan2021_table1_a100", model, "full", "a100", layers, hidden,
                           heads, 2048, 51200, tp, pp, dp, chunks, micro_batch,
                           batch // dp // micro_batch, "full", overlap_tp=False)


def megatron_core():
    """README of NVIDIA/Megatron-LM (2024/7), "Training Speed and Scalability": sequence
    4,096, vocabulary 131,072, H100, everything overlapped. It states neither the size of a
    micro-batch (taken as 1) nor interleaving, so that there is a prediction without it and
    one with a layer per chunk, nor recomputation (taken as none: fused attention)."""
    for model, layers, hidden, heads, tp, pp, batch in (
            ("1.7B", 24, 2048, 16, 1, 1, 192),
            ("7.1B", 30, 4096, 32, 2, 1, 192),
            ("16B", 32, 6144, 48, 4, 1, 192),
            ("32B", 48, 7168, 56, 8, 1, 192),
            ("70B", 84, 8192, 64, 8, 2, 384),
            ("119B", 92, 10240, 80, 8, 4, 768),
            ("177B", 96, 12288, 96, 8, 6, 1152),
            ("314B", 128, 16384, 128, 8, 8, 1536),
            ("462B", 112, 18432, 144, 8, 16, 3072)):
        for variant, chunks in (("plain 1F1B", 1), ("a layer per chunk", layers // pp)):
            if pp == 1 and chunks > 1:
                continue
            yield PublishedRun("megatron_core_h100_weak_scaling", model, variant, "h100",
                               layers, hidden, heads, 4096, 131072, tp, pp, 48, chunks, 1,
                               batch // 48, "none", "fused")


def nemo_megatron():
    """NVIDIA/dgxc-benchmarking v25.02, nemo_megatron/README_175b.md: TP 4, PP 8, a
    micro-batch of 1, 12 virtual stages, sequence 2,048, bf16. The other rows of that table
    are models that gpt_trainer is not: gated or squared-ReLU MLPs, grouped queries, experts
    of another kind, FP8, fine-tuning."""
    for gpus, batch in ((128, 256), (256, 512)):
        yield PublishedRun("dgxc_h100_step_times_up_to_256",
                           "NeMo Megatron BF16 (TP=4,PP=8, MBS=1, VP=12, SEQ=2048)",
                           f"{gpus} GPUs", "h100", 96, 12288, 96, 2048, 51200, 4, 8,
                           gpus // 32, 12, 1, batch * 32 // gpus, "none", "fused")


def all_runs():
    return [*korthikanti(), *narayanan(), *megatron_core(), *nemo_megatron()]
