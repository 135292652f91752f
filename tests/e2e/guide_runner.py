"""Runs the pages of docs/guides as their reader would, and holds them to what they show.

In a page's indented blocks a line that begins with "$ " is a command; the lines up to the
next one are what it prints on stdout, and "..." among them stands for any lines. A comment
"# exit N" names the exit code, else it is 0.
"""

import difflib
import os
import re
import subprocess

import vrank_runner as vrank


class Step:
    def __init__(self, command):
        self.command = command
        found = re.search(r"# exit (\d+)$", command)
        self.exit_code = int(found.group(1)) if found else 0
        self.shown = []


def steps_of(page):
    """The commands of a page, in order, with what the page shows of their output."""
    steps, inside = [], False
    for line in page.splitlines():
        if line.startswith("    $ "):
            steps.append(Step(line[6:]))
            inside = True
        elif inside and line.startswith("    "):
            steps[-1].shown.append(line[4:])
        elif inside and line.strip():
            inside = False
        elif inside:
            steps[-1].shown.append("")
    for step in steps:
        while step.shown and not step.shown[-1]:
            step.shown.pop()
    return steps


def matches(shown, printed):
    """Whether the lines printed are those shown, where "..." is any lines."""
    if not shown:
        return not printed
    if shown[0] == "...":
        return any(matches(shown[1:], printed[i:]) for i in range(len(printed) + 1))
    return bool(printed) and shown[0] == printed[0].rstrip() and \
        matches(shown[1:], printed[1:])


def run(page, folder, programs):
    """Runs all steps in one shell; yields (step, exit code, lines on stdout, stderr)."""
    environment = dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}")
    remembered = folder / ".variables"
    remembered.write_text("")
    for step in steps_of(page):
        script = (f". {remembered}\n{step.command}\ncode=$?\n"
                  f"declare -p COSTS TRAIN BASE NEW 2>/dev/null > {remembered}\nexit $code\n")
        done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment,
                              capture_output=True, text=True, timeout=300)
        printed = vrank.without_host_cpu(done.stdout)
        for result in folder.glob("*.json"):  # a later step must not depend on this machine's load
            result.write_text(vrank.without_host_cpu(result.read_text()))
        yield step, done.returncode, printed.splitlines(), done.stderr


def difference(step, printed):
    """For a message: the page against what was printed."""
    return "\n".join(difflib.unified_diff(step.shown, [line.rstrip() for line in printed],
                                          "page", "printed", lineterm=""))
