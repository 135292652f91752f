"""Disturbs the processes of a run, whose results must not notice."""

import os
import random
import signal
import threading
import time

import vrank_runner as vrank


class Disturber(threading.Thread):
    """Stops, continues, renices and pins the guests of one run at random moments.

    with Disturber(EXECUTABLE, seed) as disturber:
        vrank.run(..., env=disturber.environment)
    """

    def __init__(self, executable, seed, stops=True):
        super().__init__(daemon=True)
        self.executable = executable
        name, value = "VRANK_TEST_DISTURBED", f"{os.getpid()}.{id(self)}"
        self.mark = f"{name}={value}"
        self.environment = dict(os.environ, **{name: value})
        self.random = random.Random(seed)
        self.ended = threading.Event()
        self.may_stop = stops
        self.stops = 0
        self.disturbed = 0

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()

    def run(self):
        while not self.ended.is_set():
            guests = [pid for pid in vrank.processes_running(self.executable)
                      if vrank.has_marker(pid, self.mark)]
            for pid in guests:
                try:
                    self.disturb(pid)
                except (ProcessLookupError, PermissionError):
                    continue
            time.sleep(0.001)

    def disturb(self, pid):
        self.disturbed += 1
        what = self.random.randrange(4 if self.may_stop else 2)
        if what == 0:
            os.sched_setaffinity(pid, {min(os.sched_getaffinity(0))})
        elif what == 1:
            os.setpriority(os.PRIO_PROCESS, pid, self.random.randrange(20))
        else:
            os.kill(pid, signal.SIGSTOP)
            try:
                self.stops += 1
                time.sleep(self.random.uniform(0, 0.02))
            finally:
                os.kill(pid, signal.SIGCONT)
