"""Programs of PyTorch whose threads do what threads do, each drawn from a seed.

    python3 random_threads.py SEED [ranks]     prints one (of several ranks)
"""

import random
import sys

HEAD = """
import queue
import threading
import time
import torch
start = time.perf_counter()
items = queue.Queue(maxsize=3)
lock, condition, semaphore = threading.Lock(), threading.Condition(), threading.Semaphore(1)
event = threading.Event()
more, turns = [], 0
def tell(*what):
    print(*what, round((time.perf_counter() - start) * 1e9), flush=True)
def matrix(k):
    return torch.randn(128 * (k + 1), 128 * (k + 1), device="cuda")
def short(name):
    tell(name, "short", (matrix(1) @ matrix(1)).sum().item() is not None)
""".lstrip()

MAIN_TRAINS = """
model = torch.nn.Linear(256, 256).cuda()
for step in range(10):
    model(torch.randn(64, 256, device="cuda")).sum().backward()
    if step % 3 == 0:
        tell("main", step)
    if step % 4 == 3:
        torch.cuda.synchronize()
""".lstrip()


def acts(draw, thread, i):
    """What a thread may do next; `a` and `b` are matrices of its own, `m` is a layer."""
    return [
        f"for _ in range({draw.randint(1, 6)}):\n    a = a @ b",
        "torch.cuda.synchronize()",
        "a.sum().item()",
        f"try:\n    items.put(({thread}, {i}), timeout={draw.choice([0.001, 0.02])})\n"
        f"except queue.Full:\n    tell({thread}, 'full')",
        f"try:\n    tell({thread}, 'got', items.get(timeout={draw.choice([0.0005, 0.02])}))\n"
        f"except queue.Empty:\n    tell({thread}, 'empty')",
        f"with lock:\n    a = a @ b\n    time.sleep({draw.choice([0, 0.0003, 0.002])})",
        f"with condition:\n    tell({thread}, 'told', "
        f"condition.wait({draw.choice([0.0004, 0.004])}))",
        "with condition:\n    condition.notify()\n    a = a + 1",
        f"if semaphore.acquire(timeout={draw.choice([0.001, 0.01])}):\n    a = a @ b\n"
        f"    a.sum().item()\n    semaphore.release()\nelse:\n    tell({thread}, 'late')",
        f"time.sleep({draw.choice([0.0001, 0.0007, 0.003])})",
        "mark = torch.cuda.Event()\nmark.record()\nwhile not mark.query():\n"
        "    time.sleep(0.00005)",
        "m(a[:, :64]).square().mean().backward()",
        f"more.append(threading.Thread(target=short, args=('{thread}.{i}',)))\n"
        "more[-1].start()",
        f"for _ in range({draw.randint(1000, 300000)}):\n    pass",
        "c = torch.randn(400, 400)\na = a + (c @ c)[0, 0].item() * 0",
        f"tell({thread}, {i})",
        f"tell({thread}, 'event', event.wait({draw.choice([0.0002, 0.002])}))",
        "event.set()",
        "a = a + torch.ones(8, 8).pin_memory().cuda(non_blocking=True).sum()",
        f"turns += 1\ntell({thread}, 'turn', turns)",
    ]


def indented(text, depth):
    return "".join(4 * depth * " " + line + "\n" for line in text.splitlines())


def program(seed):
    """Its text."""
    draw = random.Random(seed)
    threads = draw.randint(2, 5)
    text = HEAD
    for thread in range(threads):
        stream = draw.choice(["torch.cuda.Stream()", "torch.cuda.current_stream()"])
        text += f"def thread{thread}():\n    global turns\n    with torch.cuda.stream({stream}):\n"
        text += indented(f"a, b = matrix({thread}), matrix({thread})\n"
                         "m = torch.nn.Linear(64, 64).cuda()", 2)
        for i in range(draw.randint(8, 18)):
            text += indented(draw.choice(acts(draw, thread, i)), 2)
        text += f"        tell({thread}, 'end')\n"
    if draw.random() < 0.6:
        text += 'torch.zeros(1, device="cuda")\n'
    names = ", ".join(f"thread{thread}" for thread in range(threads))
    text += f"threads = [threading.Thread(target=each) for each in ({names})]\n"
    text += "for thread in threads:\n    thread.start()\n"
    if draw.random() < 0.5:
        text += MAIN_TRAINS
    text += "for thread in threads:\n    thread.join()\nfor thread in more:\n    thread.join()\n"
    return text + 'torch.cuda.synchronize()\ntell("end")\n'


HEAD_OF_RANKS = """
import os
import subprocess
import torch
import torch.distributed as dist
rank = int(os.environ["RANK"])
os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]  # of all threads
dist.init_process_group("nccl")
reduced = torch.ones(1000, device="cuda")
reader, writer = os.pipe()
def commands(count, seconds):
    for i in range(count):
        command = ["sh", "-c", f"for i in 1 2 3; do sleep {seconds}; echo $i; done"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            for line in running.stdout:
                tell("line", line.strip())
        tell("command", running.returncode)
def reads():
    a = matrix(1)
    while (read := os.read(reader, 1)) != b"e":
        a = a @ a
        tell("read", read)
""".lstrip()

JOINS = "for thread in threads:\n    thread.join()\n"


def program_of_ranks(seed):
    """The text of one whose main threads also talk to each other by NCCL, and whose
    others may read from a pipe, or what a command writes."""
    draw = random.Random(seed)
    text = program(seed)
    more = []
    if draw.random() < 0.6:
        more.append(f"threading.Thread(target=commands, args=({draw.randint(1, 3)}, "
                    f"0.00{draw.randint(1, 6)}))")
    reads = draw.random() < 0.6
    if reads:
        more.append("threading.Thread(target=reads)")
    text = text.replace("for thread in threads:\n", f"threads += [{', '.join(more)}]\n"
                        "for thread in threads:\n", 1)
    loop = "for step in range(8):\n"
    for _ in range(draw.randint(2, 5)):
        loop += indented(draw.choice([
            "dist.all_reduce(reduced)",
            "reduced.sum().item()",
            "dist.barrier()",
            f"time.sleep({draw.choice([0.0005, 0.003])} * (1 + rank))",
            "tell('main', step)",
            "dist.all_reduce(reduced, async_op=True).wait()",
            "torch.cuda.synchronize()",
            "torch.randn(300, 300) @ torch.randn(300, 300)",
            "if rank == 0 and step % 3 == 1:\n    reduced.cpu()\n    time.sleep(0.004)",
            "os.write(writer, b'x')",
        ]), 1)
    loop += "os.write(writer, b'e')\n" if reads else ""
    body = text.removeprefix(HEAD).replace(JOINS, loop + JOINS, 1)
    return HEAD + HEAD_OF_RANKS + body + "dist.barrier()\ndist.destroy_process_group()\n"


if __name__ == "__main__":
    draw_program = program_of_ranks if "ranks" in sys.argv[2:] else program
    print(draw_program(int(sys.argv[1])), end="")
