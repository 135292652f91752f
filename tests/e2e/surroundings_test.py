"""vrank runs wherever a user may start it: in a small container, as anybody, from any
directory, with any of the standard descriptors closed; and says what it finds there."""

import json
import os
import pathlib
import pty
import resource
import shutil
import subprocess
import unittest

import vrank_runner as vrank

NOBODY = 65534
JOB = ["emulate", "--world-size", "2", "--real", "0,1", "--gpu", "h100", "--json", "--quiet"]


def start(command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


def shell(script, *arguments, **options):
    """Runs a script that sees the arguments as "$@"."""
    return start(["sh", "-c", script, "sh", *arguments], **options)


def namespace(test):
    """What to put before a command that mounts something for itself alone."""
    inside = ["unshare", "--mount"] + (["--map-root-user"] if os.geteuid() else [])
    if start([*inside, "true"]).returncode != 0:
        test.skipTest("no mount namespace can be made here")
    return inside


class SurroundingsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.expected = vrank.prediction(vrank.run(*JOB, "--", vrank.WATCHED_GUEST).stdout)

    def assert_same(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(vrank.prediction(done.stdout), self.expected)

    def test_64_mb_of_shared_memory(self):
        inside = namespace(self)
        done = start([*inside, "sh", "-c",
                      'mount -t tmpfs -o size=64m none /dev/shm && "$@" && '
                      '[ -z "$(ls -A /dev/shm)" ]',
                      "sh", vrank.VRANK, *JOB, "--", vrank.WATCHED_GUEST])
        self.assert_same(done)

    def test_somebody_without_rights(self):
        if os.geteuid() != 0:
            self.skipTest("these tests run without rights already")
        try:
            start([vrank.VRANK, "--version"], user=NOBODY, group=NOBODY, extra_groups=[])
        except PermissionError:
            self.skipTest("the build tree cannot be reached by others, as in /root")
        done = start([vrank.VRANK, *JOB, "--", vrank.WATCHED_GUEST], user=NOBODY,
                     group=NOBODY, extra_groups=[], cwd="/")
        self.assert_same(done)

    def test_any_directory(self):
        with vrank.scratch() as folder:
            os.symlink(vrank.WATCHED_GUEST, os.path.join(folder, "the guest"))
            self.assert_same(start([vrank.VRANK, *JOB, "--", "./the guest"], cwd=folder))
            gone = os.path.join(folder, "gone")
            os.mkdir(gone)
            self.assert_same(shell('rmdir "$PWD"; exec "$@"', vrank.VRANK, *JOB, "--",
                                   vrank.WATCHED_GUEST, cwd=gone))

    def test_installed_in_a_path_with_spaces(self):
        with vrank.scratch() as folder:
            root = pathlib.Path(folder, "with a space: and more")
            for part in ("bin/vrank", "bin/gpt_trainer", "tests/watched_guest"):
                (root / part).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(vrank.BUILD / part, root / part)
            for part in ("lib/vrank", "share/vrank"):
                shutil.copytree(vrank.BUILD / part, root / part)
            done = start([root / "bin" / "vrank", *JOB, "--", root / "tests" / "watched_guest"])
            self.assert_same(done)
            slices = root / "the slices"
            done = start([root / "bin" / "vrank", "trace", "--world-size", "2", "--gpu",
                          "h100", "--ranks", "0,1", "-o", slices, "--",
                          root / "tests" / "watched_guest"])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(list(slices.iterdir())), 2)

    def test_a_replay_needs_no_guest_libraries(self):
        with vrank.scratch() as folder:
            root = pathlib.Path(folder)
            (root / "bin").mkdir()
            shutil.copy(vrank.VRANK, root / "bin")
            shutil.copytree(vrank.BUILD / "share" / "vrank", root / "share" / "vrank")
            alone = root / "bin" / "vrank"
            vrank.run("trace", "--world-size", 2, "--gpu", "h100", "-o", root / "slices",
                      "--", vrank.WATCHED_GUEST)
            vrank.run("build", root / "slices", "-o", root / "job.vgraph", executable=alone)
            vrank.run("replay", root / "job.vgraph", executable=alone)
            done = vrank.run(*JOB, "--", vrank.WATCHED_GUEST, executable=alone,
                             check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("no lib/vrank/libvrank_host.so beside it", done.stderr)

    def test_all_commands_where_everything_is_scarce(self):
        """64 MB of shared memory, somebody without rights, and blanks in every path."""
        inside = namespace(self)
        with vrank.scratch() as folder:
            root = pathlib.Path(folder, "with a space")
            for part in ("bin/vrank", "bin/gpt_trainer"):
                (root / part).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(vrank.BUILD / part, root / part)
            for part in ("lib/vrank", "share/vrank"):
                shutil.copytree(vrank.BUILD / part, root / part)
            here = root / "the job"
            here.mkdir()
            for path in (folder, root):
                os.chmod(path, 0o755)
            os.chmod(here, 0o777)
            trainer = vrank.trainer(2, 2, 2)[1:]
            job = ["--layout", "tp=2,pp=2,dp=2", "--quiet", "--", "gpt_trainer", *trainer]
            commands = [
                ["doctor"],
                ["plan", "--layout", "tp=2,pp=2,dp=2"],
                ["emulate", "--world-size", "8", "--real", "0,5", *job],
                ["validate", "--ranks", "8", "--real", "0", *job],
                ["trace", "--world-size", "8", "-o", "the slices", *job],
                ["build", "the slices", "-o", "a job.vgraph"],
                ["replay", "a job.vgraph", "--perfetto", "a job.perfetto"],
                ["emulate", "--graph", "a job.vgraph", "--real", "1", *job[2:]],
                ["scale", "a job.vgraph", "--layout", "tp=2,pp=2,dp=4", "-o", "larger.vgraph"],
                ["compare", "a job.vgraph", "a job.vgraph"],
                ["kernels", "list", "a job.vgraph", "--skeleton", "some costs.textproto"],
            ]
            limits = ("mount -t tmpfs -o size=64m,mode=1777 none /dev/shm && exec "
                      + ('setpriv --reuid {0} --regid {0} --clear-groups "$@"'.format(NOBODY)
                         if os.geteuid() == 0 else '"$@"'))
            for command in commands:
                with self.subTest(command=command[0]):
                    done = start([*inside, "sh", "-c", limits, "sh", root / "bin" / "vrank",
                                  *command], cwd=here,
                                 env={"PATH": f"{root / 'bin'}:/usr/bin:/bin"})
                    self.assertEqual(done.returncode, 0, done.stderr)
                    last = done.stdout.strip().splitlines()[-1]
                    if command[0] == "trace":
                        self.assertEqual(last, "vrank build 'the slices' -o job.vgraph")
                    if command[0] == "build":
                        self.assertEqual(last, "vrank replay 'a job.vgraph'")

    def test_no_place_for_recorded_values(self):
        """Likewise."""
        for place, code in ("/not/there/values", 1), ("/", 2):
            done = vrank.run(*JOB, "--record-payloads", place, "--", vrank.WATCHED_GUEST,
                             check=False)
            self.assertEqual(done.returncode, code)
            self.assertRegex(done.stderr, f"^vrank emulate: --record-payloads {place}: .*\n$")

    def test_no_place_for_temporary_files(self):
        """Found before the first rank runs, not after."""
        done = vrank.run("validate", "--ranks", 2, "--real", 0, "--via-graph", "--gpu", "h100",
                         "--", vrank.WATCHED_GUEST, check=False,
                         env=dict(os.environ, TMPDIR="/not/there"))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "vrank validate: the folder for temporary files, "
                         "'/not/there' (No such file or directory); set TMPDIR to a place "
                         "with room\n")

    def test_closed_stdin_or_stderr(self):
        for closing in ("<&-", "2>&-", "<&- 2>&-"):
            with self.subTest(closing=closing):
                for job in (JOB, JOB[:-1]):  # with and without --quiet
                    self.assert_same(shell(f'exec "$@" {closing}', vrank.VRANK, *job, "--",
                                           vrank.WATCHED_GUEST))

    def test_messages_that_cannot_be_written(self):
        self.assert_same(shell('exec "$@" 2>/dev/full', vrank.VRANK, *JOB[:-1], "--",
                               vrank.WATCHED_GUEST))

    def test_closed_stdout(self):
        with vrank.scratch() as folder:
            done = shell('exec "$@" >&-', vrank.VRANK, *JOB, "--log-dir", folder, "--",
                         vrank.WATCHED_GUEST)
            # The job ran to its end, and its result has nowhere to go.
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, "stdout: .*; the result is lost")
            logs = sorted(os.listdir(folder))
            self.assertEqual(len(logs), 4)
            for log in logs:
                text = pathlib.Path(folder, log).read_text()
                self.assertNotIn("iteration_time_ns", text)
                self.assertEqual("ticks" in text, log.endswith(".out"), log)

    def test_all_descriptors_closed(self):
        done = shell('"$@" <&- >&- 2>&-; echo "code $?"', vrank.VRANK, *JOB, "--",
                     vrank.WATCHED_GUEST)
        self.assertEqual(done.stdout, "code 1\n")

    def test_a_reader_of_messages_that_leaves(self):
        """What the ranks print goes nowhere; the result is the same."""
        reader, writer = os.pipe()
        os.close(reader)
        try:
            done = subprocess.run([vrank.VRANK, *JOB[:-1], "--", vrank.WATCHED_GUEST], text=True,
                                  stdout=subprocess.PIPE, stderr=writer, timeout=60)
        finally:
            os.close(writer)
        self.assert_same(subprocess.CompletedProcess(done.args, done.returncode, done.stdout, ""))

    def test_a_reader_that_leaves(self):
        done = shell('"$@" | head -n 1', vrank.VRANK, *JOB, "--", vrank.WATCHED_GUEST)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "{\n")


class TerminalTest(unittest.TestCase):
    """What a rank writes, seen on a terminal."""

    SAYS = r"printf '\033]0;title\007\033[2J\033[31mred\033[m 10 \r\033[1mbold\033[m\n'"

    def emulate(self, folder):
        return [vrank.VRANK, "emulate", "--world-size", "1", "--real", "0", "--gpu", "h100",
                "--log-dir", folder, "--", "sh", "-c", f'{self.SAYS}; exec "$0"',
                vrank.WATCHED_GUEST]

    def test_colours_pass_and_the_cursor_stays(self):
        with vrank.scratch() as folder:
            ours, theirs = pty.openpty()
            process = subprocess.Popen(self.emulate(folder), stdout=subprocess.DEVNULL,
                                       stderr=theirs)
            os.close(theirs)
            seen = b""
            try:
                while piece := os.read(ours, 65536):
                    seen += piece
            except OSError:  # the other end has closed
                pass
            os.close(ours)
            self.assertEqual(process.wait(timeout=60), 0, seen)
            self.assertIn(b"[rank 0] \x1b[1mbold\x1b[m\x1b[m\r\n", seen)
            self.assertNotIn(b"title", seen)
            self.assertNotIn(b"\x1b[2J", seen)
            raw = pathlib.Path(folder, "rank0.out").read_bytes()
            self.assertTrue(raw.startswith(b"\x1b]0;title\x07\x1b[2J"), raw)

    def test_a_pipe_gets_the_bytes(self):
        with vrank.scratch() as folder:
            done = subprocess.run(self.emulate(folder), capture_output=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(b"[rank 0] \x1b]0;title\x07\x1b[2J", done.stderr)


class DoctorTest(unittest.TestCase):

    def findings(self, done):
        return {row["topic"]: row for row in json.loads(done.stdout)["findings"]}

    def test_two_runs_differ_in_readings_alone(self):
        runs = [vrank.run_json("doctor", "--json") for _ in range(2)]
        for run in runs:
            self.assertEqual([row["topic"] for row in run["findings"] if row["reading"]],
                             ["memory"])
            run["findings"] = [row for row in run["findings"] if not row["reading"]]
        self.assertEqual(json.dumps(runs[0]), json.dumps(runs[1]))

    def test_this_machine(self):
        done = vrank.run("doctor", "--json")
        result = json.loads(done.stdout)
        self.assertTrue(result["ready"])
        for row in result["findings"]:
            self.assertEqual(row["health"] == "fine", row["advice"] == "", row)
        found = self.findings(done)
        self.assertIn(str(len(os.sched_getaffinity(0))), found["cores"]["found"])
        self.assertIn(os.uname().release, found["kernel"]["found"])
        self.assertEqual(os.path.exists("/dev/nvidia0"), "none" not in found["gpu"]["found"])
        text = vrank.run("doctor").stdout
        for topic in found:
            self.assertIn(topic, text)

    def test_what_is_missing_is_named(self):
        with vrank.scratch() as folder:
            alone = os.path.join(folder, "bin", "vrank")
            os.mkdir(os.path.dirname(alone))
            shutil.copy(vrank.VRANK, alone)
            done = start([alone, "doctor", "--json"])
        self.assertEqual(done.returncode, 1)
        self.assertFalse(json.loads(done.stdout)["ready"])
        self.assertEqual(self.findings(done)["guest libraries"]["health"], "missing")

    def test_no_place_for_temporary_files_is_named(self):
        found = self.findings(vrank.run("doctor", "--json",
                                        env=dict(os.environ, TMPDIR="/not/there")))
        self.assertEqual(found["temporary files"]["health"], "limited")
        self.assertIn("set TMPDIR", found["temporary files"]["advice"])
        with vrank.scratch() as folder:
            found = self.findings(vrank.run("doctor", "--json",
                                            env=dict(os.environ, TMPDIR=folder)))
        self.assertEqual(found["temporary files"]["health"], "fine")
        self.assertIn(folder, found["temporary files"]["found"])

    def test_limits_are_named(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

        done = start([vrank.VRANK, "doctor", "--json"], preexec_fn=limit)
        found = self.findings(done)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(found["open files"]["health"], "limited")
        self.assertEqual(found["cores"]["health"], "limited")
        self.assertEqual(found["address space"]["health"], "missing")

    def test_an_installed_toolkit_and_a_torch(self):
        with vrank.scratch() as folder:
            libraries = os.path.join(folder, "lib64")
            os.mkdir(libraries)
            for name in ("libcudart.so.13", "libcudart.so.13.0.96", "libnccl.so.2.9.1",
                         "libnccl.so.2.28.9", "libnccl.so.old"):
                open(os.path.join(libraries, name), "w").close()
            os.mkdir(os.path.join(folder, "include"))
            for header, text in (("cuda.h", "#define CUDA_VERSION 13010\n"),
                                 ("nccl.h", "#define NCCL_VERSION_CODE 22809\n")):
                with open(os.path.join(folder, "include", header), "w") as file:
                    file.write(text)
            package = os.path.join(folder, "torch-2.11.0.dist-info")
            os.mkdir(package)
            os.mkdir(os.path.join(folder, "torch"))
            torches = {}
            for version, cuda in (("2.12.1", "'13.1'"), ("2.11.0", "'12.8'"), ("2.11.0", "None"),
                                  ("2.15.0", "'13.0'"), ("2.11.0", "'13.0'")):
                with open(os.path.join(package, "METADATA"), "w") as file:
                    file.write(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
                with open(os.path.join(folder, "torch", "version.py"), "w") as file:
                    file.write(f"cuda: Optional[str] = {cuda}\nhip: Optional[str] = None\n")
                found = self.findings(vrank.run("doctor", "--json", env=dict(
                    os.environ, CUDA_HOME=folder, LD_LIBRARY_PATH=libraries, PYTHONPATH=folder)))
                torches[version, cuda] = found["pytorch"]
        self.assertIn("toolkit 13.1,", found["cuda"]["found"])
        self.assertIn("libcudart.so.13.0.96;", found["cuda"]["found"])
        self.assertIn("2.28.9,", found["nccl"]["found"])
        self.assertIn("libnccl.so.2.28.9;", found["nccl"]["found"])
        self.assertIn("torch 2.11.0, for CUDA 13.0; supported", found["pytorch"]["found"])
        self.assertEqual([torch["health"] for torch in torches.values()],
                         ["limited", "limited", "limited", "fine", "fine"])
        self.assertIn("not for CUDA", torches["2.11.0", "None"]["found"])


class CompletionTest(unittest.TestCase):

    def test_bash_completes(self):
        script = vrank.run("completion", "bash").stdout
        for line, expected, absent in ((["vrank", "em"], "emulate", "demo"),
                                       (["vrank", "emulate", "--la"], "--layout", "--real"),
                                       (["vrank", "trace", "-"], "-o", "--max-assumed"),
                                       (["vrank", "completion", "f"], "fish", "bash"),
                                       (["vrank", "emulate", "--gpu", "h2"], "h200", "h100"),
                                       (["vrank", "plan", "--gpu", "x"], "", "h100"),
                                       (["vrank", "demo", "--cluster", "hgx-b"],
                                        "hgx-b200-ib400", "hgx-a100-ib200"),
                                       (["vrank", "plan", "--layout", "-"], "", "--json"),
                                       (["vrank", "plan", "--", "--"], "", "--json")):
            with self.subTest(line=line):
                done = start(["bash", "-c", script + """
                    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _vrank
                    printf '%s\\n' "${COMPREPLY[@]}" """, "bash", *line])
                self.assertEqual(done.stderr, "")
                self.assertIn(expected, done.stdout.split("\n"))
                self.assertNotIn(absent, done.stdout.split("\n"))

    def test_every_flag_is_in_every_script(self):
        for name in ("bash", "zsh", "fish"):
            script = vrank.run("completion", name).stdout
            for flag in ("--world-size", "--assume-absent", "--perfetto", "--output"):
                self.assertIn(flag if name != "fish" else f"-l {flag[2:]}", script)
            if shutil.which(name):
                done = start([name, "-n"], input=script)
                self.assertEqual((done.returncode, done.stderr), (0, ""), name)


if __name__ == "__main__":
    unittest.main()
