"""Processes that drive several GPUs: values, times, and every way of init."""

import os
import re
import sys
import unittest

import vrank_runner as vrank

GUEST = str(vrank.BUILD / "tests" / "several_gpus_guest")


def reports(done):
    """(sum, members, microseconds) of every member that reported, in any order."""
    found = re.findall(r"sum (\d+) members (\d+) time ([\d.]+) us", done.stdout + done.stderr)
    return sorted((int(total), int(members), float(time)) for total, members, time in found)


class SeveralGpusTest(unittest.TestCase):

    def emulate(self, world, real, mode, gpus, *more):
        return vrank.run("emulate", "--world-size", world, "--real", real, "--gpu", "h100",
                         *more, "--", GUEST, mode, gpus, timeout=300)

    def expect(self, done, members, total, reported):
        rows = reports(done)
        self.assertEqual(len(rows), reported, done.stdout + done.stderr)
        for row in rows:
            self.assertEqual(row[:2], (total, members))
        # 64 MiB over NVLink, by the model, on every device.
        self.assertEqual(len({row[2] for row in rows}), 1, rows)

    def test_one_process_with_all_gpus_of_a_node(self):
        total = sum(100 + i for i in range(8))
        for mode in ("all", "group", "nonblocking"):
            with self.subTest(mode=mode):
                self.expect(self.emulate(1, "0", mode, 8), 8, total, 8)

    def test_threads_with_a_gpu_each(self):
        done = self.emulate(1, "0", "threads", 4)
        rows = reports(done)
        self.assertEqual([row[:2] for row in rows], [(406, 4)] * 4,
                         done.stdout + done.stderr)

    def test_several_processes_with_several_gpus(self):
        total = sum(100 + i for i in range(4))
        for mode in ("group", "nonblocking"):
            with self.subTest(mode=mode):
                done = self.emulate(2, "0,1", mode, 2, "--ranks-per-node", 4)
                self.expect(done, 4, total, 4)

    def test_a_communicator_within_each_process(self):
        done = self.emulate(2, "0,1", "all", 2)
        self.assertEqual([row[:2] for row in reports(done)],
                         [(201, 2)] * 2 + [(205, 2)] * 2)

    def test_processes_on_nodes_of_their_own_meet_over_the_network(self):
        near = self.emulate(2, "0,1", "group", 4)
        far = self.emulate(2, "0,1", "group", 4, "--ranks-per-node", 1)
        self.assertGreater(reports(far)[0][2], reports(near)[0][2])

    def test_visible_devices(self):
        """CUDA sees what the program says in CUDA_VISIBLE_DEVICES, in its order, whatever
        the user's shell says of this machine; NVML sees all."""
        ask = """if True:
            import ctypes, os, sys
            nvml = ctypes.CDLL("libnvidia-ml.so.1")
            all_gpus = ctypes.c_uint()
            assert nvml.nvmlInit_v2() == 0
            assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(all_gpus)) == 0
            if len(sys.argv) > 1:
                os.environ["CUDA_VISIBLE_DEVICES"] = sys.argv[1]
            cuda = ctypes.CDLL("libcudart.so.13")
            count, device = ctypes.c_int(-1), ctypes.c_int(-1)
            error = cuda.cudaGetDeviceCount(ctypes.byref(count))
            text = ctypes.create_string_buffer(32)
            places = []
            for i in range(count.value):
                assert cuda.cudaDeviceGetPCIBusId(text, 32, i) == 0
                assert cuda.cudaDeviceGetByPCIBusId(ctypes.byref(device), text) == 0
                assert device.value == i
                places.append(text.value.decode()[5:7])
            print("sees", error, *places, "of", all_gpus.value)
            block, used = ctypes.c_void_p(), []
            error = cuda.cudaMalloc(ctypes.byref(block), 1 << 20)
            for i in range(all_gpus.value):
                gpu, memory = ctypes.c_void_p(), (ctypes.c_uint64 * 3)()
                assert nvml.nvmlDeviceGetHandleByIndex_v2(i, ctypes.byref(gpu)) == 0
                assert nvml.nvmlDeviceGetMemoryInfo(gpu, memory) == 0
                used += [i] if memory[2] > 0 else []
            print("takes", error, "from", *used)
        """
        places = "10 20 30 40 50 60 70 80"
        for variable, seen, takes in (([], f"0 {places}", "0 from 0"),
                                      (["3,0"], "0 40 10", "0 from 3"),
                                      (["2,9,1"], "0 30", "0 from 2"),
                                      ([""], "100", "100 from")):
            with self.subTest(variable=variable):
                done = vrank.run("emulate", "--world-size", 1, "--real", 0, "--gpu", "h100",
                                 "--", sys.executable, "-c", ask, *variable, check=False,
                                 env=dict(os.environ, CUDA_VISIBLE_DEVICES="1"))
                self.assertIn(f"sees {seen} of 8\n", done.stderr)
                self.assertIn(f"takes {takes}\n", done.stderr)

    def test_a_rank_that_sees_its_own_gpu_alone(self):
        """Device 0 of a process that sees nothing but GPU 3 is GPU 3."""
        def result(change):
            return vrank.prediction(vrank.run(
                "emulate", "--world-size", 8, "--layout", "tp=2,pp=2,dp=2", "--real",
                "0-3,7", "--gpu", "h100", "--collectives", "--json", "--", "sh", "-c",
                f'{change} exec "$@"', "sh", *vrank.trainer(2, 2, 2)).stdout)
        alone = result("CUDA_VISIBLE_DEVICES=$LOCAL_RANK LOCAL_RANK=0")
        self.assertEqual(alone, result(""))

    def test_a_played_process_follows_with_all_its_gpus(self):
        done = self.emulate(4, "0", "group", 2)
        rows = reports(done)
        self.assertEqual([row[1] for row in rows], [8, 8])
        # Mirrored: members 0 and 1 stand for all four processes.
        self.assertEqual([row[0] for row in rows], [4 * (100 + 101)] * 2)


if __name__ == "__main__":
    unittest.main()
