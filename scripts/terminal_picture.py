#!/usr/bin/env python3
"""Draws a terminal's text as an SVG picture, for the README.

  build/release/bin/vrank demo | tail -55 | scripts/terminal_picture.py '$ vrank demo | tail -55' > docs/images/demo.svg
"""

import html
import sys

COLUMN = 8.4   # width of a character at this font size
LINE = 19
MARGIN = 18
BAR = 30       # title bar


def main():
    if len(sys.argv) > 2 or sys.stdin.isatty():
        print(__doc__, file=sys.stderr)
        return 2
    lines = ([sys.argv[1]] if len(sys.argv) == 2 else []) + sys.stdin.read().rstrip().split("\n")
    width = MARGIN * 2 + COLUMN * max(len(line) for line in lines)
    height = BAR + MARGIN * 2 + LINE * len(lines)
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
          f'width="{width:.0f}" height="{height:.0f}">')
    print(f'<rect width="{width:.0f}" height="{height:.0f}" rx="8" fill="#16181d"/>')
    for index, colour in enumerate(("#ff5f57", "#febc2e", "#28c840")):
        print(f'<circle cx="{MARGIN + 18 * index}" cy="16" r="5.5" fill="{colour}"/>')
    print('<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" '
          'fill="#d7dae0" xml:space="preserve">')
    for index, line in enumerate(lines):
        y = BAR + MARGIN + LINE * index
        colour = ' fill="#7ec699"' if index == 0 and len(sys.argv) == 2 else ""
        print(f'<text x="{MARGIN}" y="{y}"{colour}>{html.escape(line)}</text>')
    print("</g></svg>")
    return 0


if __name__ == "__main__":
    sys.exit(main())
