"""What published runs do besides what gpt_trainer does, by the amount that their sources state.

A change is made in the trainer's cost file or in flags, so that a prediction is of the run as its
source describes it. None is fitted.
"""

import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Change:
    # Regular expression of kernels: how many times their bytes and FLOPs they take.
    kernels: dict = dataclasses.field(default_factory=dict)
    # Likewise: bytes that they move besides.
    more: dict = dataclasses.field(default_factory=dict)
    reached: float = 0.0         # share of H100's tensor peak that attention reaches
    words: tuple = ()            # for gpt_trainer
    flags: tuple = ()            # for vrank
    fast_nodes: bool = False     # communication inside a node takes next to no time

    def __add__(self, other):
        return Change({**self.kernels, **other.kernels}, {**self.more, **other.more},
                      self.reached or other.reached, self.words + other.words,
                      self.flags + other.flags, self.fast_nodes or other.fast_nodes)


def stated(run):
    """By name, what the source of the run states."""
    made = {}
    if run.attention == "batched":
        # Dropout of attention's scores: of each, 2 bytes read, 2 written, and a mask of 1
        # (Korthikanti et al. 2022, section 4.1), in either direction.
        made["dropout"] = Change(more={"causal_softmax$": "5 * grid_x * arg1",
                                       "causal_softmax_backward": "5 * grid_x * arg2"})
    if run.recompute == "full" and run.tp > 1:
        # Without sequence parallelism every tensor-parallel rank has all rows.
        made["rows"] = Change(kernels={"layer_norm|bias_residual": run.tp})
    if run.table.startswith("narayanan"):
        # Megatron-LM of 2021: gradients are reduced once, after the backward pass, and every
        # rank updates all parameters. The later of two options of gpt_trainer holds.
        made["reduction"] = Change(words=("--bucket-mb", "1000000"))
        made["optimizer"] = Change(kernels={"adamw": run.dp})
    return made


def changed_costs(text, change):
    """The cost file in which the change holds."""
    def entry(text):
        name = re.search(r'name: "([^"]*)"', text)
        if name is None:
            return text
        for pattern, factor in change.kernels.items():
            if re.search(pattern, name[1]):
                text = re.sub(r'(bytes|flops): "([^"]*)"', rf'\1: "{factor} * (\2)"', text)
        for pattern, bytes_more in change.more.items():
            if re.search(pattern, name[1]):
                text = re.sub(r'bytes: "([^"]*)"', rf'bytes: "\1 + {bytes_more}"', text)
        if change.reached and "unit: TENSOR_BF16" in text:
            text = text.replace("unit: TENSOR_BF16", "unit: TENSOR_BF16 reached "
                                f"{{ compute_major: 9 share: {change.reached} }}")
        return text
    return "".join(map(entry, re.split(r"(?m)^(?=kernel \{)", text)))


def write_costs(files, change, folder):
    """Copies of the cost files in the folder, in which the change holds."""
    written = []
    for place, file in enumerate(files):
        written.append(folder / f"{place}.textproto")
        written[-1].write_text(changed_costs(file.read_text(encoding="utf-8"), change),
                               encoding="utf-8")
    return written
