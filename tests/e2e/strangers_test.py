"""What is no rank connects to vrank's sockets while a job runs: the job does not notice."""

import json
import os
import pathlib
import resource
import socket
import struct
import subprocess
import unittest

import vrank_runner as vrank

OTHER_USER = 65534
SECRET = "a-secret-of-the-users-environment"
STORE_MAGIC = b"\x00" + struct.pack("<I", 0x3C85F7CE)
# What a TCPStore's server may hear from a scanner, a browser, and a client of another mind.
MALFORMED = [b"\x00", b"G", b"GET / HTTP/1.0\r\n\r\n", STORE_MAGIC[:-1] + b"\xff",
             STORE_MAGIC + b"\x01" + struct.pack("<Q", 1 << 29) + b"a" * 100_000]
IDLE = 400


def few_files():
    """Fewer than there are silent connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, most))


class StrangersTest(unittest.TestCase):

    def setUp(self):
        scratch = vrank.scratch()
        self.addCleanup(scratch.cleanup)
        self.go = os.path.join(scratch.name, "go")
        self.logs = os.path.join(scratch.name, "logs")
        os.mkfifo(self.go)
        os.mkdir(self.logs)

    def run_beside(self, act):
        """The report and stderr of a job that begins once `act(port, socket name)` is done."""
        process = subprocess.Popen(
            [vrank.VRANK, "emulate", "--world-size", "1", "--real", "0", "--gpu", "h100", "--json",
             "--log-dir", self.logs, "--", "sh", "-c",
             'echo "at $MASTER_PORT $VRANK_SOCKET"; read go <"$0"; exec "$@"', self.go,
             *vrank.trainer(1, 1, 1)],
            env=dict(os.environ, SOME_TOKEN=SECRET), text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, preexec_fn=few_files)
        self.addCleanup(process.kill)
        before = ""
        while " at " not in before:
            line = process.stderr.readline()
            self.assertTrue(line, before)
            before += line
        port, name = before.split(" at ")[1].split()[:2]
        act(int(port), name)
        with open(self.go, "w") as go:
            go.write("go\n")
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, before + err)
        return json.loads(vrank.without_host_cpu(out)), before + err

    def assert_same_but_for(self, kinds, report, err, alone):
        """The report, but for closed connections of these kinds; each has one note."""
        foreign = [loss for loss in report["losses"] if loss["name"] == "foreign_connections"]
        found = sorted(loss["subject"] for loss in foreign)
        # Which connections wait for so long that they must make room is chance.
        self.assertEqual([kind for kind in found if "sent nothing" not in kind], kinds)
        self.assertEqual(err.count("closed a connection"), len(found), err)
        report["losses"] = [loss for loss in report["losses"] if loss not in foreign]
        self.assertEqual(report, alone)

    @staticmethod
    def connect(port, name):
        store = socket.socket()  # create_connection reads files, which another user may not
        store.connect(("127.0.0.1", port))
        ranks = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ranks.connect("\0" + name)
        return store, ranks

    def be_rude(self, port, name):
        """Says what makes no sense, waits for nothing, and keeps silent connections open."""
        kept = []
        for data in MALFORMED:
            store, ranks = self.connect(port, name)
            kept += [store, ranks]
            try:
                store.sendall(data)
                ranks.send(data[:1000])
            except OSError:
                pass  # closed already
        for _ in range(IDLE):
            kept += self.connect(port, name)
        return kept

    def test_processes_of_this_user(self):
        alone, _ = self.run_beside(lambda port, name: None)
        kept = []
        report, err = self.run_beside(lambda *where: kept.extend(self.be_rude(*where)))
        for each in kept:
            each.close()
        self.assert_same_but_for(
            ["socket of the ranks: malformed", "store of the ranks: malformed"], report, err, alone)

    @unittest.skipIf(os.geteuid() != 0, "only root can become another user")
    def test_processes_of_another_user(self):
        alone, _ = self.run_beside(lambda port, name: None)

        def act(port, name):
            self.other = os.fork()
            if self.other == 0:
                try:
                    os.setgid(OTHER_USER)
                    os.setuid(OTHER_USER)
                    self.be_rude(port, name)
                    store, ranks = self.connect(port, name)
                    # A valid request is one of another user's all the same.
                    store.sendall(STORE_MAGIC + b"\x0d" + b"1234")
                    answers = []
                    for each in (store, ranks):
                        each.settimeout(60)
                        try:
                            answers.append(each.recv(1000))
                        except ConnectionResetError:
                            answers.append(b"")
                    os._exit(0 if answers[0] == b"" and b"another user" in answers[1] else 1)
                except BaseException as error:  # pylint: disable=broad-except
                    os.write(2, repr(error).encode())
                finally:
                    os._exit(2)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(self.other, 0)[1]), 0)

        report, err = self.run_beside(act)
        self.assert_same_but_for(
            ["socket of the ranks: of another user", "store of the ranks: of another user"],
            report, err, alone)
        self.assertIn(f"process of user {OTHER_USER}", err)

    def test_nothing_of_the_environment_is_printed(self):
        report, err = self.run_beside(lambda port, name: None)
        logs = "".join(path.read_text() for path in pathlib.Path(self.logs).iterdir())
        self.assertNotIn(SECRET, json.dumps(report) + err + logs)


if __name__ == "__main__":
    unittest.main()
