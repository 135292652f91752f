"""Convolutions and batch normalisation by cuDNN, as PyTorch takes them by default, in the oldest and the newest
release that the tests hold."""

import pathlib
import re
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank

# Every kind of convolution once.
NETWORK = """
import sys
import torch
from torch import nn
torch.backends.cudnn.benchmark = "benchmark" in sys.argv
def network():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, 2, 1, groups=2), nn.BatchNorm2d(64), nn.ReLU(),
        nn.Conv2d(64, 64, 5, padding=2, groups=64), nn.Conv2d(64, 128, 1), nn.ReLU(),
        nn.ConvTranspose2d(128, 64, 2, 2), nn.Conv2d(64, 64, 3, padding=2, dilation=2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 8)).cuda()
"""
TRAINED = NETWORK + """
def train(layout, half):
    net = network().to(memory_format=layout)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(2):
        x = torch.randn(4, 3, 64, 64, device="cuda").to(memory_format=layout)
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            y = net(x).float()
        loss = nn.functional.cross_entropy(y, torch.zeros(4, dtype=torch.long, device="cuda"))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    net.eval()
    with torch.no_grad():
        assert net(x).shape == (4, 8)
    print("trained", str(layout).split(".")[1], half, loss.item(), flush=True)
for layout in torch.contiguous_format, torch.channels_last:
    for half in False, True:
        train(layout, half)
for dimensions in 1, 3:
    convolution = getattr(nn, f"Conv{dimensions}d")(8, 16, 3, dilation=2).cuda()
    y = convolution(torch.randn(2, 8, *[12] * dimensions, device="cuda", requires_grad=True))
    y.sum().backward()
    print("trained", dimensions, *y.shape, flush=True)
torch.backends.cudnn.allow_tf32 = False
convolution = nn.Conv2d(64, 64, 3, padding=1).cuda()
y = convolution(torch.randn(2, 64, 16, 16, device="cuda", requires_grad=True))
y.sum().backward()
torch.cuda.synchronize()
print("trained exactly", flush=True)
"""
COUNTED = """
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
net = nn.Sequential(nn.Conv2d(16, 64, 3, padding=1), nn.Conv2d(64, 64, 3, 2, 1), nn.Conv2d(64, 128, 1),
                    nn.ConvTranspose2d(128, 64, 2, 2)).cuda()
x = torch.randn(8, 16, 64, 64, device="cuda", requires_grad=True)
with FlopCounterMode(display=False) as counter:
    y = net(x)
    y.backward(torch.ones_like(y))
torch.cuda.synchronize()
print("flops", counter.get_total_flops(), flush=True)
"""
CAPTURED = """
import torch
net = torch.nn.Sequential(torch.nn.Conv2d(8, 16, 3), torch.nn.BatchNorm2d(16)).cuda()
x = torch.randn(2, 8, 16, 16, device="cuda")
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    net(x)
torch.cuda.current_stream().wait_stream(stream)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = net(x)
for _ in range(3):
    graph.replay()
torch.cuda.synchronize()
print("replayed", *y.shape, flush=True)
"""


def emulate_json(folder, program, python, *arguments):
    return vrank.run_json("emulate", "--world-size", 1, "--real", 0, "--gpu", "h100", "--json",
                          "--log-dir", folder, "--", *pytorch.script(folder, program, python), *arguments)


def printed(folder):
    return pathlib.Path(folder, "rank0.out").read_text(encoding="utf-8")


class Convolutions:
    """What holds for each release."""

    PYTHON = None

    def run_program(self, program, *arguments):
        with vrank.scratch() as folder:
            return emulate_json(folder, program, self.PYTHON, *arguments), printed(folder)

    def check_trained(self, *arguments):
        report, output = self.run_program(TRAINED, *arguments)
        self.assertEqual(output.count("trained"), 7, output)
        self.assertNotIn("refused_calls", [loss["name"] for loss in report["losses"]])
        names = " ".join(kernel["name"] for kernel in report["kernels"])
        for kernel in ("xmma_fprop", "xmma_dgrad", "xmma_wgrad", "tf32f32", "bf16bf16", "nchwToNhwcKernel",
                       "nhwcToNchwKernel", "scudnn", "bn_fw_tr_1C11", "bn_bw_1C11", "bn_fw_inf_1C11"):
            self.assertIn(kernel, names)
        return report

    def test_layouts_and_types(self):
        self.check_trained()

    def test_the_benchmark_runs_every_engine(self):
        report = self.check_trained("benchmark")
        exact = [kernel for kernel in report["kernels"] if "winograd" in kernel["name"]]
        self.assertGreater(sum(kernel["count"] for kernel in exact), 1)

    def test_flops_are_those_of_the_shapes(self):
        report, output = self.run_program(COUNTED)
        expected = int(re.search(r"flops (\d+)", output).group(1))
        counted = report["ranks"][0]["flops"]
        # What is element-wise and sums gradients of biases comes on top.
        self.assertGreaterEqual(counted, expected)
        self.assertLess(counted, expected * 1.02)

    def test_graphs_hold_convolutions(self):
        report, output = self.run_program(CAPTURED)
        self.assertIn("replayed 2 16 14 14", output)
        normalised = [kernel for kernel in report["kernels"] if "bn_fw_tr" in kernel["name"]]
        self.assertEqual(sum(kernel["count"] for kernel in normalised), 4)

    def test_a_trace_is_what_the_emulator_received(self):
        with vrank.scratch() as folder:
            vrank.run("trace", "--world-size", 1, "--gpu", "h100", "--check", "-o", pathlib.Path(folder) / "slices",
                      "--", *pytorch.script(folder, COUNTED, self.PYTHON))


@pytorch.needs_pytorch
class OldestConvolutionTest(Convolutions, unittest.TestCase):
    PYTHON = pytorch.PYTHON


@pytorch.needs_newest
class NewestConvolutionTest(Convolutions, unittest.TestCase):
    PYTHON = pytorch.NEWEST


@pytorch.needs_pytorch
class RefusedPartsTest(unittest.TestCase):

    def test_a_projected_recurrent_layer_names_what_helps(self):
        with vrank.scratch() as folder:
            done = pytorch.emulate(*pytorch.script(folder, """
import torch
torch.nn.LSTM(8, 8, proj_size=4).cuda()(torch.ones(4, 2, 8, device="cuda"))
"""), check=False)
        self.assertNotEqual(done.returncode, 0)
        message = done.stderr[done.stderr.index("vrank emulate: "):]
        self.assertIn("cudnnSetRNNDescriptor_v8", message)
        self.assertIn("torch.backends.cudnn.enabled = False", message)


if __name__ == "__main__":
    unittest.main()
