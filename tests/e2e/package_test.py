"""scripts/package makes files that run where nothing of this machine is: unpacked into a root
that has the C and C++ libraries alone, read-only, as another user; and installed by pip."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import unittest
import zipfile

import vrank_runner as vrank

# What the package may take from the machine. Every Linux distribution has these.
FROM_THE_SYSTEM = {"ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libgcc_s.so.1",
                   "libstdc++.so.6", "libz.so.1"}
NOBODY = 65534
JOB = ["emulate", "--world-size", "8", "--layout", "tp=2,pp=2,dp=2", "--real", "0,5", "--gpu",
       "h100", "--json", "--quiet", "--"]
TRAINER = vrank.trainer(2, 2, 2)[1:]


def start(*command, **options):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600,
                          **options)


def package(*arguments):
    """Dated alike whatever is committed meanwhile."""
    return start(sys.executable, vrank.ROOT / "scripts" / "package", *arguments,
                 env=dict(os.environ, SOURCE_DATE_EPOCH="1700000000"))


def copy_system_libraries(programs, root):
    """The libraries above, at the places where the loader looks for them."""
    for program in programs:
        for line in start("ldd", program).stdout.splitlines():
            found = re.search(r"(/\S+) \(0x", line)
            if found and pathlib.Path(found[1]).name in FROM_THE_SYSTEM:
                copy = pathlib.Path(root, found[1][1:])
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(found[1], copy)
                copy.chmod(0o755)


# Runs "$@" of the folder $1 in the root $2, which is writable in /tmp alone.
INSIDE = """
set -e
package=$1 root=$2 user=$3; shift 3
mkdir -p "$root/opt/vrank" "$root/proc" "$root/dev" "$root/tmp"
mount --bind "$package" "$root/opt/vrank"
mount -o remount,bind,ro "$root/opt/vrank"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 none "$root/tmp"
exec chroot $user "$root" "$@"
"""


class PackageTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = vrank.scratch()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.folder.chmod(0o755)
        made = package("--build", vrank.BUILD, "-o", cls.folder / "made")
        if made.returncode != 0:
            raise AssertionError(made.stderr)
        cls.tar, cls.wheel = map(pathlib.Path, made.stdout.split("\n")[:2])
        with tarfile.open(cls.tar) as tar:
            tar.extractall(cls.folder)
        cls.unpacked = cls.folder / re.match(r"vrank-[0-9.]+[0-9]", cls.tar.name)[0]

    def in_a_bare_root(self, *command):
        """The command in a namespace of its own, where the package is /opt/vrank."""
        namespace = ["unshare", "--mount"] + (["--map-root-user"] if os.geteuid() else [])
        if start(*namespace, "true").returncode != 0:
            self.skipTest("no mount namespace can be made here")
        root = self.folder / "root"
        copy_system_libraries([vrank.VRANK, vrank.TRAINER], root)
        # A namespace of one user has no other.
        user = f"--userspec={NOBODY}:{NOBODY}" if os.geteuid() == 0 else "--userspec=0:0"
        return start(*namespace, "sh", "-c", INSIDE, "sh", self.unpacked, root, user, *command,
                     env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})

    def test_the_demo_in_a_bare_root(self):
        version = self.in_a_bare_root("/opt/vrank/bin/vrank", "--version")
        self.assertEqual(version.stdout, vrank.run("--version").stdout, version.stderr)
        done = self.in_a_bare_root("/opt/vrank/bin/vrank", "demo", "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1,024 ranks: 16 real", done.stdout)
        self.assertIn("The same job from a graph", done.stdout)

    def test_the_doctor_in_a_bare_root(self):
        done = self.in_a_bare_root("/opt/vrank/bin/vrank", "doctor", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertTrue(report["ready"])
        found = {finding["topic"]: finding["found"] for finding in report["findings"]}
        self.assertTrue(found["guest libraries"].endswith(" in /opt/vrank/lib/vrank"), found)
        self.assertNotIn("scripts/", done.stdout)

    def test_a_job_from_the_tar_file(self):
        """From another folder, by the path to the program."""
        bin = self.unpacked / "bin"
        done = start(bin / "vrank", *JOB, bin / "gpt_trainer", *TRAINER, cwd="/",
                     env={"PATH": "/usr/bin:/bin"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(vrank.prediction(done.stdout), self.expected())

    def test_a_job_from_the_wheel(self):
        """By the names of the programs, which pip puts on PATH."""
        prefix = self.folder / "prefix"
        done = start(sys.executable, "-m", "pip", "install", "--no-index", "--prefix", prefix,
                     "--root-user-action=ignore", self.wheel)
        if "No module named pip" in done.stderr:
            self.skipTest("this Python has no pip")
        self.assertEqual(done.returncode, 0, done.stderr)
        programs = next(prefix.rglob("bin/vrank")).parent
        done = start("vrank", *JOB, "gpt_trainer", *TRAINER,
                     env={"PATH": f"{programs}:/usr/bin:/bin"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(vrank.prediction(done.stdout), self.expected())

    def expected(self):
        """What the build tree's program predicts for the same job."""
        return vrank.prediction(vrank.run(*JOB, vrank.TRAINER, *TRAINER).stdout)

    def test_both_hold_the_same_files(self):
        unpacked = {path.relative_to(self.unpacked): path for path in self.unpacked.rglob("*")
                    if path.is_file()}
        with zipfile.ZipFile(self.wheel) as wheel:
            packed = {pathlib.Path(re.sub(r"^[^/]+\.data/(scripts|data)/",
                                          lambda kind: {"scripts": "bin/", "data": ""}[kind[1]],
                                          entry.filename)): wheel.read(entry)
                      for entry in wheel.infolist() if ".data/" in entry.filename}
        self.assertEqual(packed, {name: path.read_bytes() for name, path in unpacked.items()})
        for path in unpacked.values():
            self.assertNotIn(os.fsencode(vrank.ROOT), path.read_bytes(), path)

    def test_a_licence_for_each_library(self):
        licences = {path.name for path in
                    (self.unpacked / "share/doc/vrank/licences").iterdir()}
        for library in (self.unpacked / "lib/vrank/host").iterdir():
            base = re.sub(r"[^a-z0-9].*", "", library.name.removeprefix("lib"))
            self.assertTrue(any(base in name for name in licences), (library, licences))

    def test_the_same_source_makes_the_same_files(self):
        again = package("--build", vrank.BUILD, "-o", self.folder / "again")
        self.assertEqual(again.returncode, 0, again.stderr)
        for file in (self.tar, self.wheel):
            self.assertEqual((self.folder / "again" / file.name).read_bytes(), file.read_bytes())

    def test_no_package_from_a_folder_without_a_build(self):
        done = package("--build", self.folder, "-o", self.folder / "none")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{self.folder} is no build folder", done.stderr)
        self.assertFalse((self.folder / "none").exists())


if __name__ == "__main__":
    unittest.main()
