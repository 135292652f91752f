"""NCCL's documented rules hold on 1, 2, 4 and 8 ranks and on 3 of 1,024, and the cases
that say so find mistakes."""

import collections
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import vrank_runner as vrank

SUITE = str(vrank.BUILD / "tests" / "virtual_nccl_conformance")
WRONG = str(vrank.BUILD / "tests" / "virtual_nccl_conformance_wrong")
Case = collections.namedtuple("Case", "id functions page words waits")
Run = collections.namedtuple("Run", "code lines message")

# A mistake (wrong_nccl.cc), and a case that must find it.
MISTAKES = {
    "maximum": "types.max",
    "short": "all_reduce.every_rank",
    "lenient": "errors.no_communicator",
    "stream": "streams.associated",
    "root": "broadcast.all_ranks",
    "gather": "all_to_all.exchange",
    "key": "split.key_orders",
    "group": "group.end_alone",
    "operation": "ops.destroy",
    "finalize": "finalize.flushed_and_freed",
}


def cases():
    libraries = dict(os.environ, LD_LIBRARY_PATH=str(vrank.BUILD / "lib" / "vrank"))
    text = subprocess.run([SUITE, "--list"], check=True, capture_output=True, text=True,
                          env=libraries, timeout=60).stdout
    return [Case(*line.split("\t")) for line in text.splitlines()]


def run_suite(world_size, ranks, *arguments, program=SUITE, flags=(), wrong=None):
    """Runs the cases under vrank; what each rank printed."""
    with tempfile.TemporaryDirectory(prefix="vrank_suite") as folder:
        board, logs = pathlib.Path(folder, "board"), pathlib.Path(folder, "logs")
        board.mkdir()
        environment = dict(os.environ, NCCL_TESTS_BOARD=str(board))
        if wrong is not None:
            environment["NCCL_TESTS_WRONG"] = wrong
        done = vrank.run("emulate", "--world-size", world_size, "--real",
                         ",".join(map(str, ranks)), "--gpu", "h100", "--quiet",
                         "--log-dir", logs, *flags, "--", program, *arguments,
                         check=False, env=environment)
        lines = {rank: (logs / f"rank{rank}.out").read_text().splitlines()
                 for rank in ranks}
    return Run(done.returncode, lines, done.stderr)


def verdicts(lines):
    """id -> ok, FAIL, n/a or wait"""
    found = {}
    for line in lines:
        state = line[:4].strip()
        if state in ("ok", "FAIL", "n/a", "wait"):
            found[line[5:].split(" ")[0].rstrip(":")] = state
    return found


class ConformanceTest(unittest.TestCase):

    def all_hold(self, world_size, ranks, *arguments, flags=()):
        run = run_suite(world_size, ranks, *arguments, flags=flags)
        broken = [line for lines in run.lines.values() for line in lines
                  if line.startswith("FAIL")]
        self.assertEqual(broken, [], run.message)
        self.assertEqual(run.code, 0, run.message)
        known = {case.id for case in cases()}
        waiting = {case.id for case in cases() if case.waits}
        for lines in run.lines.values():
            seen = verdicts(lines)
            self.assertEqual(set(seen), known)
            self.assertEqual({name for name in seen if seen[name] == "wait"}, waiting)
        return verdicts(run.lines[ranks[0]])

    def test_one_rank(self):
        self.all_hold(1, [0])

    def test_two_ranks(self):
        self.all_hold(2, [0, 1])

    def test_four_ranks(self):
        self.all_hold(4, range(4))

    def test_eight_ranks(self):
        seen = self.all_hold(8, range(8))
        self.assertNotIn("n/a", seen.values())

    def test_three_ranks_of_1024(self):
        seen = self.all_hold(1024, [0, 500, 1023], "--present", "0,500,1023",
                             flags=["--assume-absent"])
        self.assertGreater(list(seen.values()).count("ok"), 250)

    def test_sentences(self):
        listed = cases()
        self.assertEqual(len({case.id for case in listed}), len(listed))
        checked = [case for case in listed if not case.waits]
        self.assertGreaterEqual(len({(case.page, case.words) for case in checked}), 300)
        for case in listed:
            self.assertTrue(case.functions and case.words, case.id)

    def test_the_compatibility_page_counts_these_cases(self):
        counts = collections.Counter(
            name for case in cases() for name in set(case.functions.split()))
        page = (pathlib.Path(__file__).resolve().parents[3] / "docs" /
                "nccl_compat.md").read_text()
        rows = re.findall(r"^\| `(nccl\w+)` \| [\d.]+ \| \w+ \| (\d*) \|", page, re.M)
        self.assertEqual({name: int(count) for name, count in rows if count},
                         {name: count for name, count in counts.items()
                          if name in dict(rows)})
        self.assertIn(f"{len(cases())} in all", page)

    def test_mistakes_are_found(self):
        for mistake, case in MISTAKES.items():
            with self.subTest(mistake):
                run = run_suite(2, [0, 1], "--only", case, program=WRONG, wrong=mistake)
                self.assertNotEqual(run.code, 0)
                found = [verdicts(lines).get(case) for lines in run.lines.values()]
                self.assertIn("FAIL", found, run.message)

    def test_no_mistake_no_failure(self):
        for case in MISTAKES.values():
            run = run_suite(2, [0, 1], "--only", case, program=WRONG)
            self.assertEqual(run.code, 0, run.message)

    def test_what_needs_no_gpu_holds_on_nvidias_library(self):
        library = pathlib.Path(os.environ.get("VRANK_CUDA_ROOT", ""), "lib")
        if not (library / "libnccl.so.2").exists():
            self.skipTest(f"no libnccl.so.2 of NVIDIA in {library}")
        done = subprocess.run([SUITE, "--without-gpu"], capture_output=True, text=True,
                              timeout=60,
                              env=dict(os.environ, LD_LIBRARY_PATH=str(library)))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreater(list(verdicts(done.stdout.splitlines()).values()).count("ok"),
                           20)


if __name__ == "__main__":
    unittest.main()
