"""Iterations of PyTorch programs without annotations are those that the same programs
annotate."""

import json
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank

SMALL = ["--layers", "2", "--hidden", "128", "--heads", "4", "--vocabulary", "512",
         "--sequence", "128"]

# Runs an example whose NVTX ranges do nothing.
WITHOUT_RANGES = """
import contextlib, runpy, sys, torch
torch.cuda.nvtx.range = lambda *names: contextlib.nullcontext()
del sys.argv[0]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""

# A loop as people write it: gradients accumulate, every second step is evaluated, nothing is
# annotated, and the host waits for nothing.
LOOP = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(6))).cuda()
optimizer = torch.optim.AdamW(model.parameters())
def loss():
    return model(torch.randn(4096, 512, device="cuda")).square().mean()
for step in range(6):
    for _ in range(3):
        loss().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 2:
        with torch.no_grad():
            for _ in range(4):
                loss()
torch.cuda.synchronize()
"""

MODELS = """
import torch
from torch.nn import Linear, Sequential
def network():
    return Sequential(*(Linear(256, 256) for _ in range(5))).cuda()
def batch():
    return torch.randn(64, 256, device="cuda")
"""

# Programs whose kernels do not say where an iteration ends, and how many they have.
STEPS = {
    "two alike": ("""
makes, judges = network(), network()
of_makes, of_judges = torch.optim.Adam(makes.parameters()), torch.optim.Adam(judges.parameters())
for step in range(6):
    of_judges.zero_grad()
    (judges(makes(batch()).detach()).mean() - judges(batch()).mean()).backward()
    of_judges.step()
    of_makes.zero_grad()
    judges(makes(batch())).mean().backward()
    of_makes.step()
""", 6),
    "several passes in a step": ("""
model = network()
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
data = batch()
def loss():
    optimizer.zero_grad()
    value = model(data).square().mean()
    value.backward()
    return value
for step in range(4):
    optimizer.step(loss)
""", 4),
    "one of plain operations": ("""
class Signs(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(parameter.grad.sign(), alpha=group["lr"])
model = network()
optimizer = Signs(model.parameters(), {"lr": 0.1})
for step in range(5):
    for _ in range(2):
        model(batch()).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
""", 5),
    "one for each parameter, in the backward pass": ("""
model = network()
def steps(optimizer):
    def hook(parameter):
        optimizer.step()
        optimizer.zero_grad()
    return hook
for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(steps(torch.optim.SGD([parameter], lr=0.1)))
for step in range(5):
    model(batch()).square().mean().backward()
""", 5),
}


@pytorch.needs_pytorch
class PytorchIterationsTest(unittest.TestCase):

    def run_job(self, command, world_size, real, layout):
        return vrank.run_json("emulate", "--world-size", world_size, "--real", real, "--gpu",
                              "h100", "--layout", layout, "--json", "--", *command)

    def test_examples_without_ranges_have_the_same_iterations(self):
        for name, flags, layout, real in (
                ("single.py", [], "dp=1", "0"), ("ddp.py", [], "dp=4", "0"),
                ("fsdp.py", [], "dp=4", "0"), ("tp.py", [], "tp=2,dp=2", "0,1"),
                ("pp.py", ["--pp", "2", "--stages", "2"], "pp=2,dp=2,order=pp-dp", "0-2")):
            with self.subTest(name), vrank.scratch() as folder:
                example = pytorch.example(name, *flags, *SMALL)
                world_size = 1 if name == "single.py" else 4
                annotated = self.run_job(example, world_size, real, layout)
                bare = pytorch.script(folder, WITHOUT_RANGES) + example[1:]
                found = self.run_job(bare, world_size, real, layout)
                self.assertEqual(annotated["iteration_source"]["evidence"], "annotation")
                self.assertEqual(found["iteration_source"]["evidence"], "optimizer")
                expected = annotated["iteration_time_ns"]
                self.assertEqual(len(found["iteration_time_ns"]), len(expected))
                # The first one begins with whatever precedes it. The loop draws its batch
                # outside of the range: 7 us. DDP's are up to 9.3 % shorter than annotated.
                share = 0.1 if name == "ddp.py" else 0.005
                for had, has in list(zip(expected, found["iteration_time_ns"]))[1:]:
                    self.assertLess(abs(has - had), max(share * had, 10_000),
                                    (expected, found["iteration_time_ns"]))

    def test_accumulation_and_evaluation(self):
        with vrank.scratch() as folder:
            job = self.run_job(pytorch.script(folder, LOOP), 1, "0", "dp=1")
        self.assertEqual(job["iteration_source"]["evidence"], "optimizer")
        times = job["iteration_time_ns"]
        self.assertEqual(len(times), 6)
        # None of them contains an evaluation, which takes a third of an iteration more.
        self.assertLess(max(times[1:]), 1.1 * min(times[1:]))

    def test_steps_of_optimizers(self):
        """Whatever kernels they have, and how many of them there are."""
        for name, (program, iterations) in STEPS.items():
            with self.subTest(name), vrank.scratch() as folder:
                job = self.run_job(pytorch.script(folder, MODELS + program), 1, "0", "dp=1")
                self.assertEqual(job["iteration_source"]["evidence"], "optimizer")
                times = job["iteration_time_ns"]
                self.assertEqual(len(times), iterations, times)
                self.assertLess(max(times[1:]), 1.01 * min(times[1:]))

    def test_a_job_that_fails_has_its_iterations_until_then(self):
        failing = LOOP.replace("for step in range(6):",
                               "for step in range(9):\n    assert step < 5, 'worn out'")
        with vrank.scratch() as folder:
            ended = vrank.run("emulate", "--world-size", 1, "--real", 0, "--gpu", "h100",
                              "--json", "--", *pytorch.script(folder, failing), check=False)
        self.assertEqual(ended.returncode, 1)
        result = json.loads(ended.stdout)
        self.assertIn("exited with 1", result["failure"])
        self.assertEqual(len(result["iteration_time_ns"]), 5)


if __name__ == "__main__":
    unittest.main()
