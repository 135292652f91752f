"""torch.profiler in a program on a virtual GPU: its trace is in virtual time."""

import json
import pathlib
import unittest

import pytorch_runner as pytorch
import vrank_runner as vrank

PROGRAM = """
import contextlib, os, sys, torch
from torch.profiler import ProfilerActivity, profile, schedule

REPEATS, TRACE = int(sys.argv[1]), sys.argv[2:]
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.empty(1024, 512, device="cuda")

def profiler():
    if not TRACE:
        return contextlib.nullcontext()
    return profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
                   schedule=schedule(wait=1, warmup=1, active=2),
                   on_trace_ready=lambda p: p.export_chrome_trace(TRACE[0]))

with profiler() as profiled:
    for _ in range(4):
        with torch.cuda.nvtx.range("iteration"):
            for _ in range(REPEATS):
                model(x).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
            torch.cuda.synchronize()
        if TRACE:
            profiled.step()
"""
DDP = """
import os, sys, torch, torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, schedule
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
layers = [torch.nn.Linear(512, 512) for _ in range(4)]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers).cuda())
x = torch.empty(1024, 512, device="cuda")
trace = f"{sys.argv[1]}/rank{dist.get_rank()}.json"
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
             schedule=schedule(wait=1, warmup=1, active=2),
             on_trace_ready=lambda p: p.export_chrome_trace(trace)) as profiled:
    for _ in range(4):
        with torch.cuda.nvtx.range("iteration"):
            model(x).square().mean().backward()
            torch.cuda.synchronize()
        profiled.step()
dist.destroy_process_group()
"""
HOST = ("cpu_op", "cuda_runtime", "cuda_driver")


def nanoseconds(microseconds):
    return round(microseconds * 1000)


def spans(events, categories):
    """Per thread, as (begin, end) in nanoseconds, outer ones first."""
    threads = {}
    for event in events:
        if event.get("ph") == "X" and event.get("cat") in categories:
            begin = nanoseconds(event["ts"])
            threads.setdefault(event["tid"], []).append(
                (begin, begin + nanoseconds(event["dur"])))
    return [sorted(thread, key=lambda span: (span[0], -span[1]))
            for thread in threads.values()]


@pytorch.needs_pytorch
class PytorchProfilerTest(unittest.TestCase):

    def check(self, repeats):
        job = ["--world-size", 1, "--gpu", "h100"]
        with vrank.scratch() as folder:
            program = [*pytorch.script(folder, PROGRAM), repeats]
            trace = pathlib.Path(folder, "trace.json")
            profiled = vrank.run_json("emulate", *job, "--real", 0, "--json", "--", *program,
                                      trace)["iteration_time_ns"]
            alone = vrank.run_json("emulate", *job, "--real", 0, "--json", "--",
                                   *program)["iteration_time_ns"]
            profile = json.loads(trace.read_text())
            events = profile["traceEvents"]
            # As people read profiles of others.
            graph = pathlib.Path(folder, "profile.vgraph")
            vrank.run("import", "kineto", trace, "-o", graph)
            replayed = vrank.run_json("replay", graph, "--against-recording", "--json")
            # As we trace: the same program without its profiler.
            slices, traced = pathlib.Path(folder, "slices"), pathlib.Path(folder, "own.vgraph")
            vrank.run("trace", *job, "--ranks", 0, "-o", slices, "--", *program)
            vrank.run("build", slices, "-o", traced)
            own = vrank.run_json("replay", traced, "--json")["iteration_time_ns"]

        # To be profiled takes no virtual time.
        self.assertEqual(profiled, alone)
        # The profiler's steps are as long as the iterations that they contain, but for calls
        # between them.
        steps = [nanoseconds(event["dur"]) for event in events
                 if event.get("cat") == "user_annotation"
                 and event["name"].startswith("ProfilerStep")]
        self.assertEqual(len(steps), 2)
        for step, iteration in zip(steps, profiled[2:]):
            self.assertLessEqual(abs(step - iteration), 100)
        # Host and device have one time: each call lies within its operator, and each kernel
        # starts after its launch.
        for thread in spans(events, HOST):
            open_spans = []
            for begin, end in thread:
                while open_spans and open_spans[-1] <= begin:
                    open_spans.pop()
                if open_spans:
                    self.assertLessEqual(end, open_spans[-1] + 1)
                open_spans.append(end)
        launches = {event["args"]["correlation"]: event["ts"] for event in events
                    if event.get("cat") in ("cuda_runtime", "cuda_driver")}
        kernels = [event for event in events if event.get("cat") == "kernel"]
        # 22 in each pass, none of them lost.
        self.assertEqual(len(kernels), 2 * 22 * repeats)
        for kernel in kernels:
            self.assertGreaterEqual(kernel["ts"], launches[kernel["args"]["correlation"]])
        # None of its times is a GPU's, and it says so.
        self.assertEqual(profile["vrank"]["times"], "virtual")
        names = {event["name"] for event in kernels}
        self.assertLessEqual(names, set(sum(profile["vrank"]["work"].values(), [])))
        assumed = profile["vrank"]["work"]["assumed"]
        self.assertEqual(sum(kernel["name"] in assumed for kernel in kernels), 0, assumed)
        self.assertEqual(replayed["ledger"]["recorded"], 0)
        self.assertGreater(replayed["ledger"]["modelled"], 0.9)
        self.assertIn("times_of_a_virtual_run", [loss["name"] for loss in replayed["losses"]])
        # The recording explains itself, and tells what our own tracer does.
        against = replayed["against_recording"]
        self.assertEqual([row["error"] for row in against["iterations"]], [0.0, 0.0])
        self.assertEqual(against["work_ends"]["largest_ns"], 0)
        self.assertGreater(against["work_ends"]["count"], len(kernels) - 1)
        for step, iteration in zip(replayed["iteration_time_ns"], own[2:]):
            self.assertLessEqual(abs(step - iteration), 100)

    def test_agrees_with_the_tracer(self):
        self.check(repeats=1)

    def test_a_host_that_waits_for_a_place_in_the_launch_queue(self):
        # More launches than the queue holds, 1,024.
        self.check(repeats=50)

    def test_ranks_that_reduce_together(self):
        with vrank.scratch() as folder:
            emulated = vrank.run_json(
                "emulate", "--world-size", 2, "--real", "0-1", "--gpu", "h100", "--json", "--",
                *pytorch.script(folder, DDP), folder)["iteration_time_ns"]
            graph = pathlib.Path(folder, "profiles.vgraph")
            vrank.run("import", "kineto", *(pathlib.Path(folder, f"rank{rank}.json")
                                            for rank in (0, 1)), "-o", graph)
            replayed = vrank.run_json("replay", graph, "--against-recording", "--json")
        against = replayed["against_recording"]
        self.assertEqual([row["error"] for row in against["iterations"]], [0.0] * 4)
        self.assertGreater(against["collective_ends"]["count"], 0)
        self.assertEqual(against["collective_ends"]["largest_ns"], 0)
        # As the members recorded them.
        self.assertEqual(against["collective_noise"]["largest_ns"], 0)
        for step, iteration in zip(replayed["iteration_time_ns"], emulated[2:]):
            self.assertLessEqual(abs(step - iteration), 100)


if __name__ == "__main__":
    unittest.main()
