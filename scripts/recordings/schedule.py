"""A run's tasks, and the text that `vrank import schedule` reads
(graph/import/schedule.proto). Times are seconds here, nanoseconds there."""

import dataclasses


@dataclasses.dataclass
class Task:
    name: str
    lane: str
    seconds: float = 0.0
    after: list = dataclasses.field(default_factory=list)  # earlier tasks of the step
    group: str = ""
    operation: str = ""
    send_to: int = -1
    receive_from: int = -1
    gap: float = 0.0
    end: float = None  # as recorded


@dataclasses.dataclass
class Step:
    name: str  # empty: between two steps
    begin: float
    end: float
    tasks: list


@dataclasses.dataclass
class Run:
    gpu: str
    ranks: list   # of each: its steps
    groups: dict  # name: ranks

    def between_steps(self):
        """All ranks meet before each step, and steps begin where they did beside each
        other: what a job does between its steps is not recorded. Steps are moved apart so
        that they follow each other on every rank."""
        everybody = "all ranks, between steps"
        self.groups[everybody] = list(range(len(self.ranks)))
        clock = 0.0
        joined = [[] for _ in self.ranks]
        for steps in zip(*self.ranks):
            shift = clock - min(step.begin for step in steps)
            for rank, step in enumerate(steps):
                before = joined[rank][-1].end if joined[rank] else clock
                meeting = Task(everybody, "between steps", group=everybody,
                               operation="all_reduce")
                joined[rank].append(Step("", before, clock, [meeting]))
                joined[rank].append(dataclasses.replace(
                    step, begin=step.begin + shift, end=step.end + shift))
            clock = max(steps[-1].end for steps in joined)
        self.ranks = joined

    def write(self, path):
        with open(path, "w", encoding="utf-8") as out:
            out.write(f'world_size: {len(self.ranks)} gpu: "{self.gpu}"\n')
            for name, ranks in self.groups.items():
                out.write(f'group {{ name: "{name}" rank: {ranks} }}\n')
            for rank, steps in enumerate(self.ranks):
                out.write(f"rank {{ rank: {rank}\n")
                for step in steps:
                    write_step(step, out)
                out.write("}\n")


def nanoseconds(seconds):
    return round(seconds * 1e9)


def write_step(step, out):
    out.write(f' step {{ name: "{step.name}" begin_ns: {nanoseconds(step.begin)} '
              f"end_ns: {nanoseconds(step.end)}\n")
    places = {id(task): place for place, task in enumerate(step.tasks)}
    for task in step.tasks:
        words = [f'name: "{task.name}" lane: "{task.lane}"',
                 f"ns: {max(0, nanoseconds(task.seconds))}"]
        if task.after:
            words.append(f"after: {[places[id(before)] for before in task.after]}")
        if task.group:
            words.append(f'group: "{task.group}" operation: "{task.operation}"')
        if task.send_to >= 0:
            words.append(f"send_to: {task.send_to}")
        if task.receive_from >= 0:
            words.append(f"receive_from: {task.receive_from}")
        if task.gap > 0:
            words.append(f"gap_ns: {nanoseconds(task.gap)}")
        if task.end is not None:
            words.append(f"end_ns: {nanoseconds(task.end)}")
        out.write("  task { " + " ".join(words) + " }\n")
    out.write(" }\n")
