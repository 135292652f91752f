"""What goes wrong is named in one message, and nothing is left behind."""

import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import vrank_runner as vrank


HELD = re.compile(r"    faulty_guest \((?P<waiter>\d+)\) waits for a mutex that "
                  r"faulty_guest \((?P<holder>\d+)\) holds")

INVERSION = """
import threading, time
locks = [threading.Lock(), threading.Lock()]
def take(own, other):
    with own:
        time.sleep(0.01)
        with other:
            pass
thread = threading.Thread(target=take, args=locks[::-1], name="saver")
thread.start()
take(*locks)
"""


class FaultsTest(unittest.TestCase):

    def setUp(self):
        self.shared_memory = vrank.shared_memory()
        # Every process of the run inherits it: what is left is found by it.
        self.mark = f"FAULTS_TEST_MARK={os.getpid()}.{self.id()}"
        name, value = self.mark.split("=")
        os.environ[name] = value

    def tearDown(self):
        del os.environ["FAULTS_TEST_MARK"]
        deadline = time.monotonic() + 10
        while vrank.processes_with(self.mark) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(vrank.processes_with(self.mark), [])
        self.assertEqual(vrank.shared_memory(), self.shared_memory)

    def fails(self, mode, *expected, more=()):
        done = vrank.run("emulate", "--world-size", 2, "--real", "0,1", "--gpu", "h100",
                         *more, "--", vrank.FAULTY_GUEST, mode, check=False, timeout=120)
        self.assertNotEqual(done.returncode, 0, done.stderr)
        for text in expected:
            self.assertIn(text, done.stderr)
        return done

    def test_crash(self):
        done = self.fails("crash", "rank 1", "SIGSEGV", "above")
        self.assertIn(f"-- gdb -batch -ex run -ex backtrace --args {vrank.FAULTY_GUEST}",
                      done.stderr)

    def test_the_way_out_of_a_crash(self):
        if shutil.which("gdb") is None:
            self.skipTest("gdb is not installed")
        gdb = ["gdb", "-batch", "-ex", "run", "-ex", "backtrace", "--args"]
        done = vrank.run("emulate", "--world-size", 2, "--real", "0,1", "--gpu", "h100",
                         "--", *gdb, vrank.FAULTY_GUEST, "crash", check=False, timeout=120)
        if "ptrace" in done.stderr:
            self.skipTest("gdb cannot trace here")
        self.assertIn("[rank 1] Program received signal SIGSEGV", done.stderr)
        self.assertRegex(done.stderr, r"\[rank 1\] #\d+ .* in main \(")

    def test_two_ranks_on_one_gpu(self):
        # Whichever fails first ends the other one.
        done = self.fails("device", "exited with 1")
        self.assertRegex(done.stderr, "ncclCommInitRank: Duplicate GPU detected : rank (0 and "
                         "rank 1|1 and rank 0) both on CUDA device 0")

    def test_crash_behind_a_script(self):
        done = vrank.run("emulate", "--world-size", 2, "--real", "0,1", "--gpu", "h100",
                         "--", "sh", "-c", '"$0" crash; exit $?', vrank.FAULTY_GUEST,
                         check=False, timeout=120)
        self.assertIn("rank 1 exited with 139 (a shell's word for SIGSEGV", done.stderr)

    def test_crash_inside_a_call(self):
        self.fails("call-crash", "rank 1", "SIGSEGV")

    def test_a_rank_that_is_killed_while_another_waits_for_it(self):
        process = self.started(stderr=subprocess.PIPE)
        pids = [pid for pid in vrank.processes_running(vrank.FAULTY_GUEST)
                if vrank.has_marker(pid, self.mark)]
        # Rank 0 comes to its wait, and rank 1 pauses.
        used = None
        while used != (used := [vrank.cpu_ticks(pid) for pid in pids]):
            time.sleep(0.5)
        [killed] = [pid for pid in pids if vrank.has_marker(pid, "\0RANK=1\0")]
        os.kill(killed, signal.SIGKILL)
        _, stderr = process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("rank 1 was killed by SIGKILL", stderr)
        self.assertRegex(stderr, "; meanwhile\n  rank 0: host waits for lane 1: all_reduce #0 of "
                         r"communicator '\S+' \(1024 x float32\); 1 of 2 members have not "
                         "arrived: rank 1")

    def test_exit_inside_a_group(self):
        self.fails("group", "rank 1", "all_reduce")

    def test_children_that_outlive_their_rank_are_ended(self):
        vrank.run("emulate", "--world-size", 2, "--real", "0,1", "--gpu", "h100", "--",
                  vrank.FAULTY_GUEST, "children", timeout=120)

    def test_exit_with_a_code(self):
        self.fails("exit", "rank 1 exited with 3; what it wrote last is above")
        with vrank.scratch() as folder:
            done = self.fails("exit", more=("--log-dir", folder))
            self.assertIn(f"{folder}/rank1.err", done.stderr)

    def test_early_exit_with_success(self):
        self.fails("early", "rank 1", "all_reduce", "it has ended early")

    def test_hang(self):
        self.fails("hang", "rank 1", "gdb -p", "--hang-after", "all_reduce",
                   more=("--hang-after", 3))

    def test_threads_that_wait_for_each_other(self):
        """Named without the limit of a hang: nothing but they could move."""
        done = self.fails("inversion", "the job is stuck: every thread of every real rank waits",
                          "rank 0: host waits for lane 1: all_reduce #0")
        holders = {}
        for line in done.stderr.splitlines():
            if (found := HELD.fullmatch(line)) is not None:
                holders[found["waiter"]] = found["holder"]
        self.assertEqual(len(holders), 2, done.stderr)
        self.assertEqual({holders[holders[waiter]] for waiter in holders}, set(holders))

    def test_threads_of_python_that_wait_for_each_other(self):
        done = vrank.run("emulate", "--world-size", 1, "--real", 0, "--gpu", "h100", "--",
                         "/usr/bin/python3", "-c", INVERSION, check=False, timeout=120)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"MainThread \(\d+\) waits for a lock or semaphore that "
                         r"saver \(\d+\) took last, at <string>:\d+ in take")
        self.assertRegex(done.stderr, r"saver \(\d+\) waits for a lock or semaphore that "
                         r"MainThread \(\d+\) took last, at <string>:\d+ in take")

    def test_a_hang_names_what_is_waited_for(self):
        self.fails("hang", "threads of process", "waits for a signal",
                   more=("--hang-after", 1))

    def test_a_rank_that_spins(self):
        """It is named, with its process, and ends the job after ten times as long."""
        for mode, since in (("spin", "since its last call"),
                            ("spin-early", "without a call to its GPU"),
                            ("children-spin", "since its last call")):
            with self.subTest(mode=mode):
                done = self.fails(mode, "for up to 3 s of this. `gdb -p ",
                                  more=("--hang-after", 0.3))
                told, *_, error = [line for line in done.stderr.splitlines()
                               if line.startswith("vrank") and "s of CPU time" in line]
                for line in (told, error):
                    self.assertIn("rank 1 has used", line)
                    self.assertIn(since, line)
                self.assertIn("--hang-after SECONDS changes the limit (10 times that)", error)
                self.assertIn("meanwhile", error)

    def test_a_rank_that_asks_for_what_cannot_end(self):
        self.fails("poll-event", "rank 1: host asks for token", "all_reduce #1")

    def test_a_rank_that_looks_at_a_flag_between_sleeps(self):
        for mode in ("poll-sleep", "poll-sleep-until"):
            with self.subTest(mode):
                self.fails(mode, "rank 1 only sleeps, again and again",
                           "for 1 s it has asked for nothing since its last call",
                           more=("--hang-after", 1))

    def test_a_rank_that_waits_for_what_was_refused(self):
        self.fails("refused-pause", "rank 1 has used no CPU for 1 s",
                   "calls that vrank has refused, perhaps what is waited for: "
                   "cudaMallocManaged", more=("--hang-after", 1))

    def test_a_rank_that_spins_and_may(self):
        """--hang-after 0 waits for ever."""
        process = subprocess.Popen(
            [vrank.VRANK, "emulate", "--world-size", "2", "--real", "0,1", "--gpu",
             "h100", "--hang-after", "0", "--", vrank.FAULTY_GUEST, "spin"],
            text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            with self.assertRaises(subprocess.TimeoutExpired):
                process.wait(timeout=8)
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)

    def test_communicators_joined_in_different_orders(self):
        self.fails("init-order", "1 of 2 have passed its unique id: rank 0 (index 0)",
                   "rank 1 waits with other ids",
                   "none may wait for another communicator first")

    def test_mismatched_collectives(self):
        self.fails("mismatch", "rank 0", "rank 1", "1024", "2048")

    def test_another_root_or_operation(self):
        names = ("communicator 'world': collective #0 differs between members",
                 "rank 0 calls", "rank 1 calls")
        self.fails("root", "broadcast(1024 float32, root 0)",
                   "broadcast(1024 float32, root 1)", *names)
        self.fails("operation", "all_reduce(1024 float32, sum)", "all_gather(512 float32", *names)

    def test_a_send_without_a_receive(self):
        both_sides = ("send #0 from rank 1 (index 1) to rank 0 (index 0), 4096 bytes, has "
                      "no receive: rank 1 sends once, rank 0 receives from it 0 times")
        self.fails("send", both_sides)
        flags = ("--layout", "pp=2", "--gpu", "h100", "--", vrank.FAULTY_GUEST, "send")
        with vrank.scratch() as folder:
            for command in (("validate", "--ranks", 2, "--real", 0),
                            ("trace", "--world-size", 2, "-o", f"{folder}/slices")):
                done = vrank.run(*command, *flags, check=False, timeout=120)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(both_sides, done.stderr)
        # Who aborts gives up what is under way.
        vrank.run("emulate", "--world-size", 2, "--real", "0,1", "--gpu", "h100", "--",
                  vrank.FAULTY_GUEST, "given-up-send", timeout=120)

    def test_ranks_that_wait_in_a_circle(self):
        self.fails("circle", "\n  in a circle: rank 0 waits for rank 1 (send #0 of communicator "
                   "'world'), rank 1 for rank 0 (send #0 of communicator 'world')\n  rank ")
        three = vrank.run("emulate", "--world-size", 3, "--real", "0-2", "--gpu", "h100", "--",
                          vrank.FAULTY_GUEST, "circle", check=False, timeout=120)
        self.assertEqual(three.returncode, 1)
        self.assertIn("in a circle: rank 0 waits for rank 1 (send #0 of communicator 'world'), "
                      "rank 1 for rank 2 (send #0 of communicator 'world'), rank 2 for rank 0 (",
                      three.stderr)

    def test_an_abort_ends_what_nobody_comes_to(self):
        done = vrank.run("emulate", "--world-size", 2, "--real", "0,1", "--gpu", "h100", "--",
                         vrank.FAULTY_GUEST, "abort", timeout=120)
        self.assertIn("rank 0 goes on", done.stderr)

    def test_refused_call(self):
        self.fails("refused", "cudaGraphicsUnregisterResource")

    def test_orphan_of_another_session_is_ended(self):
        vrank.run("emulate", "--world-size", 2, "--real", "0,1", "--gpu", "h100", "--",
                  vrank.FAULTY_GUEST, "orphan")

    def test_out_of_memory_is_not_sticky(self):
        done = vrank.run("emulate", "--world-size", 1, "--real", "0", "--gpu", "h100",
                         "--", vrank.FAULTY_GUEST, "memory")
        self.assertIn("took 7", done.stderr + done.stdout)

    def test_gpus_that_nobody_uses(self):
        done = self.fails("unused", "without giving their GPUs any work", "only asks")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "")
        one = vrank.run("emulate", "--world-size", 1, "--real", 0, "--", vrank.FAULTY_GUEST,
                        "unused", check=False)
        self.assertEqual(one.returncode, 1)
        self.assertIn("the real rank has ended without giving its GPU any work", one.stderr)
        # Some ranks may be idle on purpose.
        some = vrank.run("emulate", "--world-size", 2, "--real", "0,1", "--", "sh", "-c",
                         'WORLD_SIZE=1 exec "$0" $([ $RANK = 1 ] && echo unused)',
                         vrank.FAULTY_GUEST, check=False)
        self.assertIn("rank 1 has ended without giving its GPU any work", some.stderr)

    def test_world_size_that_does_not_fit_the_layout(self):
        done = vrank.run("emulate", "--world-size", 6, "--layout", "tp=2,pp=2", "--real",
                         "0", "--", vrank.FAULTY_GUEST, "", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("tp=2", done.stderr)
        self.assertIn("6", done.stderr)

    def test_static_binary(self):
        with vrank.scratch() as folder:
            source = os.path.join(folder, "s.c")
            binary = os.path.join(folder, "static guest")
            with open(source, "w") as file:
                file.write("int main(void) { return 0; }\n")
            subprocess.run(["cc", "-static", "-o", binary, source], check=True)
            done = vrank.run("emulate", "--world-size", 1, "--real", "0", "--", binary,
                             check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("static", done.stderr)

    def refused(self, program, *expected):
        """A program that vrank can say is impossible before it starts, and the same
        behind a script, where it finds out later."""
        with vrank.scratch() as folder:
            script = os.path.join(folder, "start it")
            with open(script, "w") as file:
                file.write(f'#!/bin/sh\nexec "{program}"\n')
            os.chmod(script, 0o755)
            for command in (program, script):
                with self.subTest(command=command):
                    done = vrank.run("emulate", "--world-size", 2, "--real", "0,1", "--",
                                     command, check=False, timeout=120)
                    self.assertNotEqual(done.returncode, 0)
                    for text in expected:
                        self.assertIn(text, done.stderr)

    def test_cuda_runtime_linked_statically(self):
        nvcc = os.environ.get("VRANK_NVCC", "")
        if not os.path.exists(nvcc):
            self.skipTest("no nvcc: nothing here can be linked with -cudart static")
        with vrank.scratch() as folder:
            source, binary = os.path.join(folder, "s.cu"), os.path.join(folder, "s")
            with open(source, "w") as file:
                file.write("__global__ void k(float* p) { *p = 1; }\n"
                           "int main() { float* p; if (cudaMalloc(&p, 4)) return 3;\n"
                           "  k<<<1, 1>>>(p); return cudaDeviceSynchronize() ? 4 : 0; }\n")
            built = subprocess.run([nvcc, "-cudart", "static", "-o", binary, source],
                                   capture_output=True, text=True)
            if built.returncode != 0:
                self.skipTest(f"nvcc cannot link here: {built.stderr.strip()[-200:]}")
            self.refused(binary, "-cudart shared")

    def test_missing_command(self):
        done = vrank.run("emulate", "--world-size", 1, "--real", "0", "--",
                         "/no/such/program", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/no/such/program", done.stderr)

    def test_result_that_cannot_be_written(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([vrank.VRANK, "--version"], stdout=full,
                                  stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("No space left", done.stderr)

    def started(self, *before, stderr=subprocess.DEVNULL):
        process = subprocess.Popen(
            [*before, vrank.VRANK, "emulate", "--world-size", "2", "--real", "0,1", "--gpu",
             "h100", "--", vrank.FAULTY_GUEST, "hang"], stdout=subprocess.DEVNULL,
            stderr=stderr, text=True)
        deadline = time.monotonic() + 20
        while (len(vrank.processes_running(vrank.FAULTY_GUEST)) < 2 and
               time.monotonic() < deadline):
            time.sleep(0.02)
        return process

    def killed(self, signal_number):
        process = self.started()
        process.send_signal(signal_number)
        self.assertNotEqual(process.wait(timeout=30), 0)

    def test_a_hang_up_that_is_ignored_stays_ignored(self):
        process = self.started("nohup")
        process.send_signal(signal.SIGHUP)
        with self.assertRaises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        process.send_signal(signal.SIGTERM)
        self.assertNotEqual(process.wait(timeout=30), 0)

    def test_kill_9_of_vrank_ends_all(self):
        self.killed(signal.SIGKILL)

    def test_ctrl_c_ends_all(self):
        self.killed(signal.SIGINT)


if __name__ == "__main__":
    unittest.main()
