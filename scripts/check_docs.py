#!/usr/bin/env python3
"""Holds the documents against the program.

  check_docs.py build/release/bin/vrank

- every subcommand has docs/cli/<name>.md, and that page names exactly its flags and
  gives an example;
- links between documents lead somewhere;
- the README's two commands exist.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def tracked(*patterns):
    out = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, check=True,
                         capture_output=True, text=True).stdout
    return [ROOT / line for line in out.splitlines()]


def help_text(vrank, *arguments):
    run = subprocess.run([vrank, *arguments, "--help"], capture_output=True, text=True,
                         check=True)
    return run.stdout


def flags_in(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", text))


def check_commands(vrank):
    problems = []
    top = help_text(vrank)
    block = re.split(r"(?im)^subcommands:", top)[-1]
    names = re.findall(r"(?m)^\s{1,4}([a-z]+)\s{2,}\S", block)
    if not names:
        return ["vrank --help: no subcommands found; check_docs.py cannot read it"]
    for name in names:
        page = ROOT / "docs" / "cli" / f"{name}.md"
        if not page.exists():
            problems.append(f"docs/cli/{name}.md is missing; write it: "
                            f"`vrank {name} --help` shows it")
            continue
        if not re.search(rf"(?m)^Example: .+\n\n    vrank {name}\b", page.read_text()):
            problems.append(f"docs/cli/{name}.md has no example: a line 'Example: ...' and "
                            f"a command 'vrank {name} ...'")
        documented = flags_in(page.read_text())
        described = [line.split("  ")[0:2] for line in help_text(vrank, name).splitlines()
                     if re.match(r"\s+-", line)]
        real = flags_in("\n".join(" ".join(parts) for parts in described)) - {"--help"}
        for flag in sorted(real - documented):
            problems.append(f"docs/cli/{name}.md does not mention {flag}")
    return problems


def check_links():
    problems = []
    for page in tracked("*.md"):
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" in target or target.startswith("mailto:"):
                continue
            if not (page.parent / target).exists():
                problems.append(f"{page.relative_to(ROOT)}: link to {target} leads nowhere")
    return problems


def check_readme():
    text = (ROOT / "README.md").read_text()
    return [f"README.md does not name {command}" for command in
            ("./scripts/quickstart", "./scripts/test") if command not in text]


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    vrank = str(pathlib.Path(sys.argv[1]).resolve())
    problems = check_commands(vrank) + check_links() + check_readme()
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
