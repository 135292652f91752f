#!/usr/bin/env python3
"""Writes docs/nccl_compat.md: what each function of libnccl.so.2 does under vrank.

    compat_table.py            writes the page
    compat_table.py --check    fails if the page is not what it would write

The names, their versions and remarks come from nccl.symbols; which of them are refused
comes from the sources (NCCL_REFUSED in api/unsupported.cc, Refuse in the other files);
environment variables come from core/environment.def; how many cases of the conformance
suite check a function comes from the suite's tables.
"""

import collections
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "nccl_compat.md"
SUITE = HERE.parent / "tests" / "virtual_nccl" / "conformance"

Entry = collections.namedtuple("Entry", "name since remark")

INTRO = """\
# NCCL under vrank: what each function does

<!-- Made by virtual_nccl/compat_table.py; change nccl.symbols or that file instead. -->

vrank's `libnccl.so.2` exports the names of NCCL 2.28.9 and those that newer versions added, {total}
functions: {modelled} are modelled, {refused} are refused. A refused function names itself once per
process on standard error, is counted in the report (`refused_calls`), and returns
`ncclInvalidUsage`, never a success.

## How calls behave

- **Arguments** are checked in NCCL's order and with its results; `ncclGetLastError` describes the
  error.
- **Buffers** that are neither device nor page-locked memory return `ncclInvalidArgument` with
  `NCCL_CHECK_POINTERS=1`. Without it the call succeeds, stderr names the buffer, and CUDA fails
  with `cudaErrorIllegalAddress` from then on, as after the kernel. The same applies to a count that
  exceeds mapped memory, which comes in blocks of 2 MiB. Within these blocks it extends into the
  memory behind the allocation, as on a GPU, and `NCCL_CHECK_POINTERS` does not detect it, as in
  NCCL.
- **Captured communicators.** Releasing a communicator while a CUDA graph holds its operations ends
  the job with that cause, since NCCL waits there until the graph is destroyed.
- **Communicators** are created when all members have arrived. With `blocking = 0` a call returns
  `ncclInProgress` at once, and `ncclCommGetAsyncError` reports the arrival at the same virtual time
  in every run. The handle of an init is written during the call only, that of a split or shrink
  when the parent's state becomes `ncclSuccess`. A failed init keeps its handle, which reports the
  error and has to be aborted. Inits of one group may be listed in any order.
- **Several GPUs in one process** work as in NCCL: `ncclCommInitAll`, several inits in one group, or
  one from each of several threads. The members of one process are adjacent in the communicator, and
  every process has equally many. Two members on one GPU are refused.
- **Threads** may each wait for their own communication. A wait or an init may depend, through other
  ranks, on another thread of the process; it does not block that thread. Threads that issue
  concurrently share a clock (`concurrent_issuers`).
- **Groups** are one launch per communicator, on the first stream used with it, in one order of
  communicators on all ranks; the group's other streams are joined before and after. Collectives run
  in call order, then all sends and receives at once.
- **Empty operations**: collectives of zero elements are dropped; sends and receives of zero bytes
  are matched. On one rank a collective is a device copy, or no operation in place; a pre-multiplied
  sum multiplies there, too.
- **Registered buffers and windows** return handles, which have to be released; the model has no
  faster path for them.
- **Device memory** that NCCL would take is reserved at init and listed separately; an init without
  room for it returns `ncclUnhandledCudaError`.
- **Two members on one GPU** are refused as NCCL refuses them. A member on GPU 0 of a node with
  virtual ranks is also refused where that GPU belongs to another rank and no real rank of the node
  has chosen a GPU: the virtual ranks would use GPU 0, too.
- **Bytes** that the program put into device memory arrive, reduced exactly among the real ranks.
  The output of a kernel has no bytes; docs/limitations.md ("Values") states what the program reads
  instead.
- `NCCL_DEBUG=INFO` prints NCCL's lines of init, release, calls and environment; warnings name the
  line of this library. Time stamps are left out. Two runs print the same except for the prefix of
  each line: the host's name and the numbers of process and thread.
- **A rank that fails** (it exits, is killed, hangs, makes a different call): from then on
  `ncclCommGetAsyncError`, inits and calls of the others return `ncclRemoteError`, and
  `ncclGetLastError` names the cause. Waits return `cudaErrorLaunchTimeout` until the process has
  aborted or destroyed its communicators; then its GPU works again. Earlier results stay. Results
  that never arrived read as zeros, which vrank's message counts. After `--failure-grace` seconds
  (10) the others are ended (`docs/decisions/0025-failed-ranks.md`).
- **A rank that is lost** (`vrank emulate --survive-failures`; it exits with another code than 0, or
  is killed): `ncclCommGetAsyncError`, calls and splits on its communicators return
  `ncclRemoteError` to the other members. `ncclGetLastError` names the lost rank and the first
  collective that it did not join. Waits last until a member aborts: `ncclCommAbort`,
  `ncclCommRevoke` and `ncclCommShrink` with `NCCL_SHRINK_ABORT` end work in flight. The
  communicator that a shrink makes works, with exact data and times
  (`docs/decisions/0026-lost-ranks.md`).

## Limits

- A traced process has one member of each communicator, and `ncclCommShrink` is refused there.
- With virtual ranks, a split of a communicator whose processes have several members each cannot be
  inferred.
- `ncclCommAbort` cannot free a thread in a blocking init whose members never arrive: that is
  reported as a deadlock of the job.
- After `ncclCommAbort`, an operation that the others never join ends, for the aborting rank, once
  the clocks of all running ranks have passed that time (with virtual ranks: once the whole job
  waits). Where every rank waits, a thread that would abort more than a second after the furthest
  rank's clock is not waited for: the job is reported as deadlocked.
- A rank that a shrink left out cannot split that communicator afterwards.
- Revoking and shrinking with `NCCL_SHRINK_ABORT` end work in flight as `ncclCommAbort` does: with
  its members, should these still arrive. Without `--survive-failures` a job ends with its first
  failed rank: survivors that shrink their communicator to continue without it receive
  `ncclRemoteError`, with that reason.
- Calls in captured streams become nodes of the graph. Each launch counts as the next operations of
  its communicators. Traces record them once, as nodes (`docs/decisions/0019-graphs-in-traces.md`).

## On a real GPU

`vrank emulate --real-gpu` leaves the real ranks their GPUs, CUDA and clocks. Only NCCL is emulated,
so that a few GPUs can take part in a large job. A collective queues a kernel with NCCL's launch
shape, which occupies the stream and the SMs that NCCL's would. The kernel reports to the emulator
when the stream reaches it. The emulator releases it at the modelled end of the operation. A member
that arrives late delays the others in real time.

- Tested on an H100 and an H200 (docs/validation.md): stock PyTorch with DDP, FSDP2, tensor, context
  and pipeline parallelism, torchtitan and gpt_trainer, one to four ranks of 2 to 1,024 on one GPU,
  and graphs with a collective. Several GPUs of one machine and MPS were not tested on a GPU; they
  are tested on a device of host threads.
- No bytes of other ranks arrive, not even of other real ranks: the other members count as sending
  this rank's bytes, as under the mirror policy. A sum is the value times the members, a gather this
  member's contribution in every place, a broadcast from another root leaves the buffer unchanged.
  The hold kernel writes these while it waits. A receive leaves its buffer unchanged. A
  pre-multiplied sum over one rank fails.
- A stream continues 6 us after its release, the bus included. A hold lasts 80 to 110 us at least:
  its begin and its end travel between the device, the process and the emulator. Shorter collectives
  take too long.
- LOCAL_RANK distributes the GPUs of this machine, whatever the node of the rank.
- Calls in captured streams become kernels of the graph; each of its launches is held and reported
  like a call. Destroying a captured communicator waits for the device, where a launch may be in
  flight. A graph that is launched after its communicator was destroyed holds no stream.
- All ranks count their time from the start of the job, on one machine's clock.
- Values are not known: `--payload`, `--recorded-payloads` and `--record-payloads` are refused.
- A launch failure or the end of the emulator ends all holds within the patience (30 s). Calls
  return `ncclSystemError` from then on, as does `ncclCommGetAsyncError`.
- The number of CTAs comes from 16 assumed channels; NCCL's own number depends on the topology that
  it finds. Registers and shared memory are those of NCCL 2.28.9's kernels on an H100 (96 per
  thread, 103,808 bytes), so that little else fits beside a CTA of hundreds of threads.
- A rank that fails is reported to the others as without a GPU, and their holds are released. A rank
  that exits with success while others wait for it is found by `--hang-after`; a program that spins
  for its stream delays that (ten times as long, in CPU time).
- Kernels are not observed: the report has no compute and no memory of real ranks (`vrank trace
  --real-gpu` records both). Ends and iterations are observations, which differ from run to run.
- Iterations are the program's NVTX ranges where it has some that are named like one. Without
  them they end with the steps of PyTorch's optimizers, if in each of them something is communicated or the
  host waits for the GPU, and last from one communication's end to the next ([decision
  0037](decisions/0037-steps-of-optimizers.md); not yet seen on a GPU). Without
  steps they are found by what the program communicates. Its all-reduces and reduce-scatters of
  gradients repeat in each step in equal order and sizes; losses, norms, gathers for a log, evaluations
  and checkpoints in between change nothing. An iteration ends with the end of its last such
  collective, and begins with the end of the one before: its length is that of a step in the steady
  state, though the update of the parameters counts to the next one. Where as much as half a step is
  communicated in between (an evaluation with FSDP), it begins behind the last of that; an evaluation
  that communicates little counts to the next iteration. The first one begins behind the last
  collective before it, so part of its forward pass is missing.
- Not found so: fewer than three steps; gradients in one bucket of one size, unless the whole
  sequence of collectives repeats (tensor parallelism alone likewise); activations of changing
  length without data parallelism. Found wrongly: micro batches whose gradients are each reduced
  (FSDP that accumulates without `no_sync`) count as iterations. Put each step between
  `torch.cuda.nvtx.range_push("iteration")` and `range_pop()` there.
- Where the real ranks' calls leave the members of a communicator open, no rank is added. The
  members are learned on virtual GPUs, and the run starts again.

## NVIDIA's nccl-tests

Programs built from NVIDIA's sources run as they are. Link them with the shared CUDA runtime
(`-cudart shared`), as their makefile does. Without a GPU nothing is computed, so a data
check (`-c 1`) compares zeros and proves nothing: pass `-c 0`. The columns `time`, `algbw` and
`busbw` are the network model's, in virtual time, host costs of the calls included.

    vrank emulate --world-size 1 --real 0 --gpu h100 -- ./all_reduce_perf -b 8 -e 128M -f 2 -g 8 -c 0
    vrank emulate --world-size 1 --real 0 --gpu h100 -- ./alltoall_perf -t 4 -g 2 -G 3 -c 0
    vrank emulate --world-size 8 --real 0-7 --gpu h100 --launcher -- \\
        mpirun -np 8 ./all_reduce_perf -g 1 -c 0

Tried (version 2.19.6): all its programs with `-g` 1 to 8 (`hypercube` with powers of 2); `-d
all`, and `-o all` where there is an operation; `-r -1`; `-t` 2, 4 and 8; `-G` 2 and 3, also with
threads; `-z 1`; `-m 3`; `-R` 1 and 2; built with MPI under `mpirun` (Open MPI 4.1) with 2, 4 and
8 processes. Processes meet in MPI between two sizes, which vrank does not see; on a busy machine
that shows as an uneven start where there are few iterations (`-n 2`). Not tried: `-D` (the device
API, which is refused).

Programs compiled against NCCL's headers of 2.18.1 to 2.30.4 were tried, each with a
configuration that does not block, collectives, a split and a simulated group.

## Environment

Variables that are set and not listed are named on standard error and ignored: the network
model knows neither algorithms by NCCL's names nor channels. So are values that NCCL does not
take (`NCCL_COMM_BLOCKING=7`).

| variable | here |
|---|---|
{environment}
## Functions

Cases: how many of the conformance suite (`tests/virtual_nccl/conformance`, {cases} in all)
check the function; each quotes a sentence of NCCL's documentation. A refused function has
none: `tests/virtual_nccl/contracts_test.py` sees it refuse.

| function | since | state | cases | remark |
|---|---|---|---|---|
"""


def read_entries():
    pattern = re.compile(r"(nccl\w+)(?: [\w\s*]+?)?\s+# ([\d.]+)(?:: (.*))?$")
    lines = (HERE / "nccl.symbols").read_text().splitlines()
    rows = [line for line in lines if line and line[0] not in "#@"]
    entries = []
    for row in rows:
        match = pattern.match(row)
        if match is None:
            raise SystemExit(f"nccl.symbols: cannot read '{row}'")
        entries.append(Entry(match[1], match[2], match[3] or ""))
    return entries


def refused_names():
    names = set()
    for source in sorted((HERE / "api").glob("*.cc")):
        text = source.read_text()
        names.update(re.findall(r"^NCCL_REFUSED\((\w+), \w+\)", text, re.M))
        names.update(re.findall(r"^NCCL_REFUSED_AS\(\w+, (\w+),", text, re.M))
        names.update(re.findall(r"\bRefuse\(\"(\w+)\"", text))
    return names


def environment():
    table = (HERE / "core" / "environment.def").read_text()
    rows = re.findall(r'^VRANK_NCCL_HONOURED\((\w+), "(.*)"\)$', table, re.M)
    return "".join(f"| `{name}` | {meaning} |\n" for name, meaning in rows)


def cases():
    """Of every case of the suite: the functions that it checks."""
    text = r'"(?:[^"\\]|\\.)*"'
    row = re.compile(rf'\{{"(\w+\.\w+)",\s*({text}(?:\s*{text})*),')
    found = []
    for source in sorted(SUITE.glob("*_cases.cc")):
        code = source.read_text()
        found += [re.sub(r'"\s*"|"', "", match[2]).split() for match in row.finditer(code)]
        # A row for each type of an operation.
        types = len(re.findall(r"^\s*DATA_CASE\(name, function,", code, re.M))
        for function in re.findall(r'^\s*DATA_CASES\("\w+", "(\w+)",', code, re.M):
            found += [[function]] * types
    return found


def page():
    entries = read_entries()
    checked = cases()
    counts = collections.Counter(name for functions in checked for name in set(functions))
    refused = refused_names()
    unknown = refused - {entry.name for entry in entries}
    if unknown:
        raise SystemExit(f"refused, but not in nccl.symbols: {', '.join(sorted(unknown))}")
    text = INTRO.format(total=len(entries), refused=len(refused),
                        modelled=len(entries) - len(refused), cases=len(checked),
                        environment=environment())
    for entry in sorted(entries):
        state = "refused" if entry.name in refused else "modelled"
        text += f"| `{entry.name}` | {entry.since} | {state} | {counts[entry.name] or ''} | {entry.remark} |\n"
    return text


def main(arguments):
    if arguments not in ([], ["--check"]):
        raise SystemExit(__doc__)
    text = page()
    if not arguments:
        PAGE.write_text(text)
        return 0
    if not PAGE.exists() or PAGE.read_text() != text:
        print("docs/nccl_compat.md is out of date; run virtual_nccl/compat_table.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
