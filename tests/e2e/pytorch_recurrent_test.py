"""Recurrent networks by cuDNN, as PyTorch takes them by default, in the oldest and the newest release that the tests
hold."""

import json
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank

TRAINED = """
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

class Tagger(nn.Module):
    def __init__(self, kind, **more):
        super().__init__()
        self.rnn = kind(32, 48, batch_first=True, **more)
        self.head = nn.Linear(96 if more.get("bidirectional") else 48, 8)
    def forward(self, x, lengths=None):
        if lengths is None:
            return self.head(self.rnn(x)[0])
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.head(pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0])

def train(kind, lengths=None, half=False, **more):
    net = Tagger(kind, **more).cuda()
    optimizer = torch.optim.Adam(net.parameters())
    for step in range(3):
        x = torch.randn(4, 20, 32, device="cuda")
        with torch.autocast("cuda", torch.float16, enabled=half):
            y = net(x, lengths).float()
        nn.functional.cross_entropy(y.flatten(0, 1), torch.zeros(y.shape[0] * y.shape[1], dtype=torch.long, device="cuda")).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    net.eval()
    with torch.no_grad():
        assert net(x, lengths).shape == y.shape
    print("trained", kind.__name__, *y.shape, flush=True)

for kind in nn.LSTM, nn.GRU, nn.RNN:
    train(kind)
    train(kind, num_layers=2, bidirectional=True, dropout=0.3)
train(nn.LSTM, lengths=torch.tensor([20, 3, 11, 7]))
train(nn.LSTM, half=True)
train(nn.LSTM, bias=False)
torch.cuda.synchronize()
"""

# PyTorch's count of what a forward pass keeps and of the peak, on an H200 (PyTorch 2.11, cuDNN 9.19, 2026-11-29).
MEASURED = {
    ("LSTM", 1024, 1024, 2, False, "float32"): (50594304, 430114304),
    ("LSTM", 512, 512, 2, True, "float16"): (25297408, 188974592),
    ("LSTM", 1024, 1024, 2, False, "bfloat16"): (58884608, 257033728),
    ("GRU", 1024, 1024, 2, False, "bfloat16"): (54616576, 221611520),
    ("RNN", 1024, 1024, 2, False, "float32"): (16908800, 157861376),
}
MEMORY = """
import json, sys, torch
for kind, hidden, inputs, layers, both, dtype in json.loads(sys.argv[1]):
    torch.cuda.reset_peak_memory_stats()
    m = getattr(torch.nn, kind)(inputs, hidden, layers, bidirectional=both, batch_first=True).to("cuda", getattr(torch, dtype))
    x = torch.randn(16, 64, inputs, device="cuda", dtype=getattr(torch, dtype), requires_grad=True)
    before = torch.cuda.memory_allocated()
    for _ in range(2):
        y = m(x)[0]
    kept = torch.cuda.memory_allocated() - before
    for _ in range(2):
        y.backward(torch.ones_like(y), retain_graph=True)
    print("memory", json.dumps([kept, torch.cuda.max_memory_allocated()]), flush=True)
    del m, x, y
"""


class Recurrent:
    PYTHON = None

    def run_script(self, text, *arguments):
        with vrank.scratch() as folder:
            return vrank.run("emulate", "--world-size", 1, "--real", "0", "--gpu", "h200", "--json", "--",
                             *pytorch.script(folder, text, self.PYTHON), *arguments)

    def test_networks_of_all_kinds_train(self):
        done = self.run_script(TRAINED)
        self.assertEqual(done.stderr.count("trained "), 9, done.stderr[-3000:])
        names = {kernel["name"] for kernel in json.loads(done.stdout)["kernels"]}
        self.assertLessEqual({"cudnnRNNForward", "cudnnRNNBackwardData_v8", "elemWiseRNNcell"}, names)

    def test_memory_is_what_a_gpu_takes(self):
        done = self.run_script(MEMORY, json.dumps([list(key) for key in MEASURED]))
        lines = [json.loads(line.split("memory ")[1]) for line in done.stderr.splitlines() if "] memory [" in line]
        self.assertEqual(len(lines), len(MEASURED), done.stderr[-3000:])
        # PyTorch's allocator splits no block of which less than 1 MiB would be left, and which blocks there are depends
        # on what ran before: the measured networks had others before them.
        left = 2 ** 20
        for (network, (kept, peak)), found in zip(MEASURED.items(), lines):
            self.assertEqual(found[0], kept, network)
            self.assertLessEqual(abs(found[1] - peak), left, (network, found[1]))


@pytorch.needs_pytorch
class OldestRecurrentTest(Recurrent, unittest.TestCase):
    PYTHON = pytorch.PYTHON


@pytorch.needs_newest
class NewestRecurrentTest(Recurrent, unittest.TestCase):
    PYTHON = pytorch.NEWEST


if __name__ == "__main__":
    unittest.main()
