"""Starts the built program the way a user would and looks at what it leaves behind."""

import json
import os
import pathlib
import re
import subprocess
import tempfile

BUILD = pathlib.Path(os.environ["VRANK_BUILD"])
VRANK = str(BUILD / "bin" / "vrank")
TRAINER = str(BUILD / "bin" / "gpt_trainer")
RANDOM_GUEST = str(BUILD / "tests" / "random_guest")
CAPTURED_GUEST = str(BUILD / "tests" / "captured_guest")
COMPUTING_GUEST = str(BUILD / "tests" / "computing_guest")
LATE_GROUPS_GUEST = str(BUILD / "tests" / "late_groups_guest")
SHORT_PROGRAMS_GUEST = str(BUILD / "tests" / "short_programs_guest")
SURVIVOR_GUEST = str(BUILD / "tests" / "survivor_guest")
SHRINKING_GUEST = str(BUILD / "tests" / "shrinking_guest")
FAULTY_GUEST = str(BUILD / "tests" / "faulty_guest")
WRONG_STEP_VRANK = str(BUILD / "tests" / "vrank_wrong_step")
WRONG_TRACE_VRANK = str(BUILD / "tests" / "vrank_wrong_trace")
DEBUGGED_GUEST = str(BUILD / "tests" / "debugged_guest")
SLEEPERS_GUEST = str(BUILD / "tests" / "sleepers_guest")
WATCHED_GUEST = str(BUILD / "tests" / "watched_guest")
POLLING_GUEST = str(BUILD / "tests" / "polling_guest")
THREADS_GUEST = str(BUILD / "tests" / "threads_guest")
KERNELS = str(BUILD / "share" / "vrank" / "gpt_trainer" / "kernels.textproto")
ROOT = pathlib.Path(__file__).resolve().parents[2]
FULL = bool(os.environ.get("VRANK_TEST_FULL"))

# A small model whose dimensions every layout of eight ranks divides.
SMALL_MODEL = ["--layers", "8", "--hidden", "512", "--heads", "8", "--sequence", "256",
               "--vocab", "1024", "--micro-batches", "8", "--iterations", "2"]
# What a handle of cuBLAS takes on a Hopper GPU, which is the program's memory, too
# (virtual_gpu/api/blas/blas_handle.cc).
CUBLAS_HANDLE = 64 << 20
LAYOUTS = [(2, 2, 2), (8, 1, 1), (1, 8, 1), (1, 1, 8), (2, 4, 1)]


def layout_flag(tp, pp, dp):
    return f"tp={tp},pp={pp},dp={dp}"


def trainer(tp, pp, dp, *more):
    return [TRAINER, "--tp", str(tp), "--pp", str(pp), "--dp", str(dp), *SMALL_MODEL,
            *more]


def without_host_cpu(output):
    """What vrank printed, without the CPU time of the host: that is of this machine and
    moment, and all else is the same in every run."""
    output = re.sub(r'(?m)^ *"host_cpu_ns": \[[^\]]*\],?\n|^ *"host_cpu_children_ns": \d+,?\n', "",
                    output)
    output = re.sub(r'(?m)^ *"host_bound": (null|\{[^}]*\}),?\n', "", output)
    return re.sub(r"(?m)^lower bound .*\n|(?<=^fidelity    )lower bound; ", "", output)


def prediction(output):
    """The JSON that vrank printed, as far as the same job gives the same however it was
    started: without its provenance and the CPU time of the host."""
    result = json.loads(without_host_cpu(output))
    del result["provenance"]
    return result


def run(*arguments, timeout=600, check=True, cwd=None, env=None, executable=VRANK,
        host_cpu=False):
    """Runs vrank; the completed process, with output as text. `host_cpu`: with the CPU
    time of the host, which differs from run to run."""
    done = subprocess.run([executable, *map(str, arguments)], capture_output=True, text=True,
                          timeout=timeout, cwd=cwd, env=env)
    if not host_cpu:
        done.stdout = without_host_cpu(done.stdout)
    if check and done.returncode != 0:
        raise AssertionError(f"vrank {' '.join(map(str, arguments))}\nexit "
                             f"{done.returncode}\n{done.stdout[-2000:]}\n"
                             f"{done.stderr[-4000:]}")
    return done


def program_output(*command):
    """What the program itself prints, outside of vrank. Our libraries stand in for
    NVIDIA's, which need not be here."""
    libraries = dict(os.environ, LD_LIBRARY_PATH=str(BUILD / "lib" / "vrank"))
    return subprocess.run(list(map(str, command)), capture_output=True, text=True,
                          check=True, timeout=60, env=libraries).stdout


def run_json(*arguments, **options):
    return json.loads(run(*arguments, **options).stdout)


def processes_running(executable):
    """Pids of this user's processes that run the file."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if os.readlink(entry / "exe") == os.path.realpath(executable):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def processes_with(marker):
    """Pids of processes started with the marker in their environment, but ourselves."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        if has_marker(int(entry.name), marker):
            found.append(int(entry.name))
    return found


def cpu_ticks(pid):
    """User and system time of the process so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return fields[11:13]  # utime, stime: proc(5)


def has_marker(pid, marker):
    """Whether the process was started with the marker in its environment."""
    try:
        return marker.encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def shared_memory():
    """But for the semaphores of Python programs, which other tests may run meanwhile."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sem.mp-")}


def scratch():
    return tempfile.TemporaryDirectory(prefix="vrank test ")
