"""Recordings of other people's runs that are no profile, as tasks (schedule.py).

No start is used to place a task: starts give the order of a rank's tasks, and how much
later than all it is known to need a task began (its gap, which counts as unexplained)."""

import collections
import glob
import gzip
import json
import os
import re

from schedule import Run, Step, Task


class Refused(Exception):
    """What a recording holds that its reader does not know."""


def load(path):
    """JSON, plain or gzip, by its first bytes."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except (OSError, EOFError, ValueError) as error:
        raise Refused(f"{path}: no JSON, plain or gzip: {error}") from error


def refuse_larger(path, sizes, names):
    """Sizes above 1 whose meaning in the recording is not known."""
    for name in names:
        if sizes.get(name, 1) != 1:
            raise Refused(f"{path}: {name} is {sizes[name]}; how its passes depend on each "
                          "other is not known, so that only 1 is read")


def pipeline_step(name, order, rank, stride, stage, stages, begin, end):
    """A step of a pipeline without interleaving, of which `rank` is a stage; the next stage
    is `stride` ranks further. `order`: ("forward" or "backward", micro-batch, seconds,
    recorded end or None) in the order of the rank. Transfers between stages are known to
    happen and take no time: none was recorded."""
    tasks = []
    for kind, micro_batch, seconds, task_end in order:
        before, behind = ((stage - 1, stage + 1) if kind == "forward"
                          else (stage + 1, stage - 1))
        work = Task(f"{kind} {micro_batch}", "compute", seconds, end=task_end)
        if 0 <= before < stages:
            tasks.append(Task(f"receive for {kind}", f"receive {kind}",
                              receive_from=rank + (before - stage) * stride))
            work.after.append(tasks[-1])
        tasks.append(work)
        if 0 <= behind < stages:
            tasks.append(Task(f"send after {kind}", f"send {kind}", after=[work],
                              send_to=rank + (behind - stage) * stride))
    return Step(name, begin, end, tasks)


def primus(folder):
    """AMD-AGI/Primus, tools/visualization/pp_vis: begin and end of every micro-batch's
    forward and backward pass in ms since the iteration's begin, and its length. The first
    iteration is warm-up. A file is of a stage, whatever the number of its ranks."""
    files = {}
    for path in glob.glob(os.path.join(folder, "pp_rank_*.json*")):
        found = re.fullmatch(r"pp_rank_(\d+)\.json(\.gz)?", os.path.basename(path))
        if found:
            files[int(found[1])] = path
    if not files or sorted(files) != list(range(len(files))):
        raise Refused(f"{folder}: pp_rank_0.json (or .json.gz) and its followers are needed, "
                      f"one of each stage; found of {sorted(files) or 'none'}")
    config = os.path.join(folder, "config.json")
    sizes = load(config) if os.path.exists(config) else {}
    if sizes.get("pp_size", len(files)) != len(files):
        raise Refused(f"{config}: pp_size is {sizes['pp_size']}, and there are files of "
                      f"{len(files)} stages")
    refuse_larger(config, sizes, ("vp_size", "vpp_size"))
    recorded = [load(files[stage]) for stage in sorted(files)]
    ranks = []
    for stage, iterations in enumerate(recorded):
        steps = []
        clock = 0.0
        for number in sorted(iterations, key=int)[1:]:
            one = iterations[number]
            passes = []
            counts = {len(one[key]) for key in ("fwd_start", "fwd_end", "bwd_start", "bwd_end")}
            micro_batches = sizes.get("num_mbs", sizes.get("micro_batches", max(counts)))
            if counts != {micro_batches} or one.get("wgrad_start"):
                raise Refused(f"{files[stage]}: iteration {number} has {sorted(counts)} passes "
                              f"of {micro_batches} micro-batches, or weight gradients apart; "
                              "only one forward and one backward pass of each are read")
            for kind, key in (("forward", "fwd"), ("backward", "bwd")):
                for micro_batch, (begin, end) in enumerate(zip(one[f"{key}_start"],
                                                               one[f"{key}_end"])):
                    passes.append((begin, kind, micro_batch, (end - begin) * 1e-3, None))
            passes.sort()
            steps.append(pipeline_step(f"iteration {number}", [row[1:] for row in passes],
                                       stage, 1, stage, len(files), clock,
                                       clock + one["total"] * 1e-3))
            clock += max(other[number]["total"] for other in recorded) * 1e-3
        ranks.append(steps)
    return Run("AMD Instinct", ranks, {})


def one_f_one_b(stage, stages, micro_batches):
    warm_up = min(stages - 1 - stage, micro_batches)
    order = [("forward", i) for i in range(warm_up)]
    for i in range(micro_batches - warm_up):
        order += [("forward", warm_up + i), ("backward", i)]
    return order + [("backward", i) for i in range(micro_batches - warm_up, micro_batches)]


def perseus(file):
    """ml-energy/zeus, sosp24_data: seconds of every micro-batch's forward and backward
    pass and of every iteration, 1F1B. The first iteration has one more of each (a trial).
    Loading a micro-batch (first and last stage) precedes its forward pass. The folder's name
    states the sizes; a rank is (stage * dp + replica) * tp + its place, and each replica and
    place is a pipeline of its own: what crosses them was not recorded."""
    folder = os.path.basename(os.path.dirname(os.path.abspath(file)))
    gpu = "NVIDIA " + os.path.basename(os.path.dirname(os.path.dirname(os.path.abspath(file))))
    recorded = sorted(load(file), key=lambda rank: rank["rank"])
    sizes = {name: int(size) for name, size in re.findall(r"\+(dp|pp|tp)(\d+)(?=\+|$)", folder)}
    stride = sizes.get("dp", 1) * sizes.get("tp", 1)
    stages = sizes.get("pp", len(recorded))
    if stages * stride != len(recorded):
        raise Refused(f"{file}: {len(recorded)} ranks, and the folder states {sizes}")
    ranks = []
    for rank, one in enumerate(recorded):
        stage = rank // stride
        steps = []
        clock = 0.0
        for iteration, seconds in enumerate(one["iter_time"]):
            if iteration == 0:
                continue
            times = {kind: one["time_breakdown"][kind][iteration]
                     for kind in ("load", "forward", "backward")}
            count = len(times["forward"])
            loads = len(times["load"]) // count  # two of the last stage: inputs and labels
            order = []
            for kind, i in one_f_one_b(stage, stages, count):
                spent = times[kind][i]
                if kind == "forward":
                    spent += sum(times["load"][i * loads:(i + 1) * loads])
                order.append((kind, i, spent, None))
            steps.append(pipeline_step(f"iteration {iteration}", order, rank, stride, stage,
                                       stages, clock, clock + seconds))
            clock += seconds
        ranks.append(steps)
    return Run(gpu, ranks, {})


# bytedance_jobs: a step's end, in the order in which a worker goes through it.
LAST = ("gc", "layernorm-grads-all-reduce", "embedding-grads-all-reduce",
        "grads-reduce-scatter", "optimizer-clip-main-grad", "optimizer")
MEETING = "meeting of the last stage"


def bytedance(timeline):
    """ByteDance-Seed/StragglerAnalysis: Chrome traces of a job's workers. The parameters'
    all-gather comes first; forward and backward passes are one chain; a send follows its
    pass and is waited for before the next one, as Megatron-LM does; a receive is posted
    behind the pass ahead of the one that it is for; LAST follow the last pass, the
    embedding's all-reduce with the other end of the pipeline, clipping with all. The
    workers of the last stage meet after their last pass (they go on together, which is
    nowhere recorded: the average of the loss, it seems)."""
    events = load(timeline)
    lanes = {(event["pid"], event["tid"]): event["args"]["name"] for event in events
             if event["name"] == "thread_name"}
    by_step = collections.defaultdict(lambda: collections.defaultdict(list))
    seen = set()
    for event in events:
        if event["ph"] == "X":
            pipeline, tensor = lanes[event["pid"], event["tid"]].split(",")[:2]
            stage, place = int(pipeline.split()[-1]), int(tensor.split()[-1])
            key = (event["pid"], stage, event["args"]["step"], event["name"],
                   event["args"]["seq_id"], event["args"]["mb_id"])
            if place != 0 or key in seen:
                raise Refused(f"{timeline}: '{event['name']}' of DP rank {event['pid']}, "
                              f"{lanes[event['pid'], event['tid']]} is there again for another "
                              "tensor-parallel rank or virtual stage; only one of each is read")
            seen.add(key)
            by_step[event["args"]["step"]][event["pid"], stage].append(event)
    workers = sorted({worker for step in by_step.values() for worker in step},
                     key=lambda worker: (worker[1], worker[0]))
    rank_of = {worker: rank for rank, worker in enumerate(workers)}
    stages = 1 + max(stage for _, stage in workers)
    groups = {f"stage {stage}": [rank_of[worker] for worker in workers if worker[1] == stage]
              for stage in range(stages)}
    groups.update({f"ends of pipeline {pid}": [rank_of[pid, 0], rank_of[pid, stages - 1]]
                   for pid, stage in workers if stage == 0})
    groups["all"] = list(range(len(workers)))
    ranks = [[] for _ in workers]
    for number in sorted(by_step):
        tasks = {worker: worker_tasks(by_step[number][worker], worker, stages, rank_of)
                 for worker in workers}
        meeting = [task for own in tasks.values() for task in own if task.name == MEETING]
        for task in meeting:
            task.start = max(one.after[0].start + one.after[0].seconds for one in meeting)
        find_gaps(tasks, rank_of)
        for worker, own in tasks.items():
            begin = min(task.start for task in own)
            end = max(task.start + task.seconds for task in own)
            ranks[rank_of[worker]].append(Step(f"step {number}", begin, end, own))
    return Run("a GPU of ByteDance's job", ranks, groups)


def worker_tasks(events, worker, stages, rank_of):
    pid, stage = worker
    by_name = collections.defaultdict(dict)
    for event in events:
        by_name[event["name"]][event["args"]["seq_id"], event["args"]["mb_id"]] = event
    made = []

    def make(event, lane, after, **more):
        task = Task(event["name"], lane, event["dur"] * 1e-6,
                    [before for before in after if before is not None], **more)
        task.start = event["ts"] * 1e-6
        made.append(task)
        return task

    def chain(name):
        return [by_name[name][key] for key in sorted(by_name[name])]

    gather = [make(event, "collectives", [], group=f"stage {stage}", operation="all_gather")
              for event in chain("params-all-gather")]
    passes = sorted(chain("forward-compute") + chain("backward-compute"),
                    key=lambda event: event["ts"])
    number = collections.Counter()
    work = gather[-1] if gather else None
    sent = None
    for event in passes:
        kind = event["name"].split("-")[0]
        before, behind = (stage - 1, stage + 1) if kind == "forward" else (stage + 1, stage - 1)
        index = number[kind]
        number[kind] += 1
        inputs = [work, sent]
        if 0 <= before < stages:
            inputs.append(make(chain(f"{kind}-recv")[index], f"{kind} receive", [work],
                               receive_from=rank_of[pid, before]))
        work = make(event, "compute", inputs)
        if 0 <= behind < stages:
            sent = make(chain(f"{kind}-send")[index], f"{kind} send", [work],
                        send_to=rank_of[pid, behind])
    last = work
    for name in LAST:
        if name == "layernorm-grads-all-reduce" and stage == stages - 1:
            last = Task(MEETING, "collectives", 0.0, [last], group=f"stage {stage}",
                        operation="all_reduce")
            made.append(last)
        for event in chain(name):
            more = {}
            if name == "embedding-grads-all-reduce":
                more = {"group": f"ends of pipeline {pid}", "operation": "all_reduce"}
            elif name == "grads-reduce-scatter":
                more = {"group": f"stage {stage}", "operation": "reduce_scatter"}
            elif name == "optimizer-clip-main-grad":
                more = {"group": "all", "operation": "all_reduce"}
            last = make(event, "collectives" if more else "compute", [last], **more)
    return made


def find_gaps(tasks, rank_of):
    """How much later than all they need tasks began, in the recording."""
    ends = {}  # as recorded, by task
    meetings = collections.defaultdict(list)
    transfers = collections.defaultdict(list)
    for worker, own in tasks.items():
        uses = collections.Counter()
        lane_end = {}
        begin = min(task.start for task in own)
        for task in own:
            needs = [ends[id(before)] for before in task.after]
            needs.append(lane_end.get(task.lane, begin))
            ends[id(task)] = lane_end[task.lane] = task.start + task.seconds
            own_gap = task.start - max(needs)
            key = (task.group, task.send_to, task.receive_from)
            uses[key] += 1
            if task.group:
                meetings[task.group, uses[key]].append((own_gap, task))
            elif task.send_to >= 0:
                transfers[rank_of[worker], task.send_to, uses[key]].append((own_gap, task))
            elif task.receive_from >= 0:
                transfers[task.receive_from, rank_of[worker], uses[key]].append(
                    (own_gap, task))
            else:
                task.gap = max(0.0, own_gap)
    for members in [*meetings.values(), *transfers.values()]:
        gap = max(0.0, min(own for own, _ in members))
        for _, task in members:
            task.gap = gap
