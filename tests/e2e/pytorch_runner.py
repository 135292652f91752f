"""What the tests with stock PyTorch share: where it is, and a skip where it is not."""

import os
import pathlib
import subprocess
import unittest

import vrank_runner as vrank

PYTHON = pathlib.Path(os.environ.get("VRANK_PYTORCH_PYTHON",
                                     vrank.ROOT / "build" / "venv" / "bin" / "python"))


def newest_python():
    """Of the newest release that scripts/setup --pytorch=VERSION has put beside build/venv;
    build/venv-none/bin/python, which does not exist, where there is none."""
    if "VRANK_PYTORCH_NEWEST" in os.environ:
        return pathlib.Path(os.environ["VRANK_PYTORCH_NEWEST"])

    def release(python):
        return tuple(int(part) for part in python.parts[-3].split("-")[1].split("."))
    return max((vrank.ROOT / "build").glob("venv-[0-9]*/bin/python"), key=release,
               default=vrank.ROOT / "build" / "venv-none" / "bin" / "python")


NEWEST = newest_python()
EXAMPLES = vrank.ROOT / "examples" / "pytorch"

needs_pytorch = unittest.skipUnless(
    PYTHON.exists(), f"{PYTHON} is not there; scripts/setup --pytorch installs PyTorch")
needs_newest = unittest.skipUnless(
    NEWEST.exists(), "no build/venv-VERSION; scripts/setup --pytorch=newest installs PyTorch")


def needs_package(name, install):
    """Skips where PyTorch's Python has no such package; finding out does not import it."""
    found = PYTHON.exists() and subprocess.run(
        [PYTHON, "-c", "import importlib.util, sys\n"
         f"sys.exit(importlib.util.find_spec({name!r}) is None)"],
        check=False, capture_output=True).returncode == 0
    return unittest.skipUnless(found, f"{PYTHON} has no {name}; pip install {install}")


def script(folder, text, python=PYTHON):
    """The command that runs `text` as a program of PyTorch's."""
    path = pathlib.Path(folder, "program.py")
    path.write_text(text)
    return [python, path]


def example(name, *arguments, python=PYTHON):
    return [python, EXAMPLES / name, *arguments]


def emulate(*command, world_size=1, real="0", **options):
    return vrank.run("emulate", "--world-size", world_size, "--real", real, "--gpu", "h100",
                     "--", *command, **options)


def same_again(test, program, runs, ranks=1, surroundings=None):
    """Runs it that often and compares reports and output. Returns what one run printed.
    `surroundings(run)`: what else its environment has."""
    with vrank.scratch() as folder:
        ended = [vrank.run(
            "emulate", "--world-size", ranks, "--real", f"0-{ranks - 1}", "--gpu", "h100",
            "--json", "--log-dir", os.path.join(folder, str(i)), "--", *script(folder, program),
            env=dict(os.environ, **(surroundings(i) if surroundings else {})), check=False)
            for i in range(runs)]
        for run in ended:
            test.assertEqual(run.returncode, 0, run.stderr)
        printed = ["".join(pathlib.Path(folder, str(i), f"rank{rank}.out").read_text()
                           for rank in range(ranks)) for i in range(runs)]
    test.assertEqual(len({run.stdout for run in ended}), 1)
    test.assertEqual(len(set(printed)), 1)
    return printed[0]
