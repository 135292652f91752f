"""nvidia-smi on the PATH of an emulated rank."""

import unittest

import vrank_runner as vrank


class NvidiaSmiTest(unittest.TestCase):

    # A rank without work for its GPU is an error of its own.
    def printed(self, command):
        run = vrank.run("emulate", "--world-size", 1, "--real", 0, "--gpu", "h100", "--",
                        "sh", "-c", command, check=False)
        return [line.removeprefix("[rank 0] ") for line in run.stderr.splitlines()
                if line.startswith("[rank 0] ")]

    def test_shows_the_gpus_of_the_emulated_node(self):
        printed = self.printed("nvidia-smi; nvidia-smi -L; nvidia-smi "
                               "--query-gpu=index,name,memory.total --format=csv,noheader,nounits")
        table = "\n".join(printed)
        self.assertIn("Driver Version:", table)
        self.assertEqual(table.count("| NVIDIA-SMI"), 1)
        self.assertIn("No running processes found", table)
        listed = [line for line in printed if line.startswith("GPU ")]
        self.assertEqual(len(listed), 8)
        self.assertTrue(listed[7].startswith("GPU 7: NVIDIA H100 80GB HBM3 (UUID: GPU-"))
        self.assertIn("0, NVIDIA H100 80GB HBM3, 81007", printed)

    def test_refuses_by_name_what_it_lacks(self):
        self.assertIn("2", self.printed("nvidia-smi topo -m; echo $?"))
        self.assertIn("2", self.printed(
            "nvidia-smi --query-gpu=colour --format=csv >/dev/null; echo $?"))


if __name__ == "__main__":
    unittest.main()
