#!/usr/bin/env python3
"""rooms.py -- draws the rooms of gateway/ and what includes what, from the includes themselves.

    docs/rooms.py            writes docs/rooms.svg
    docs/rooms.py --check    exit status 1 when docs/rooms.svg is not what would be written

A room stands one floor above the highest room that it includes.  An arrow that follows from others is
not drawn; each box names all of its includes.
"""
import pathlib
import re
import sys
import textwrap

TREE = pathlib.Path(__file__).resolve().parent.parent
PICTURE = TREE / "docs/rooms.svg"
INCLUDE = re.compile(r'^#include "gateway/([^"]+)"', re.M)
WIDE, HIGH, GAP, FLOOR, MARGIN, WIDTH = 186, 76, 34, 122, 20, 860
STYLE = """  <style>
    .box { fill: #f6f8fa; stroke: #8c959f } .name { fill: #1f2328; font-weight: 600 } .quiet { fill: #59636e }
    .line { stroke: #59636e; fill: none } .head { fill: #59636e }
    @media (prefers-color-scheme: dark) {
      .box { fill: #151b23; stroke: #656c76 } .name { fill: #f0f6fc } .quiet { fill: #9198a1 }
      .line { stroke: #9198a1 } .head { fill: #9198a1 }
    }
  </style>
  <defs>
    <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">
      <path class="head" d="M0 0 L8 4 L0 8 Z"/>
    </marker>
  </defs>
"""


def room_of(path):
    """A file's room by its path below gateway/; what stands there directly is the room "gateway"."""
    return path.split("/")[0] if "/" in path else "gateway"


def read_rooms():
    """Room -> the rooms that it includes."""
    below = {}
    for file in sorted((TREE / "gateway").rglob("*.[ch]")):
        room = room_of(file.relative_to(TREE / "gateway").as_posix())
        others = below.setdefault(room, set())
        others.update(map(room_of, INCLUDE.findall(file.read_text())))
        others.discard(room)
    return below


def find_floors(below):
    floors, climbing = {}, set()

    def climb(room):
        if room in climbing:
            sys.exit(f"rooms.py: {room} is part of a ring")
        if room not in floors:
            climbing.add(room)
            floors[room] = 1 + max((climb(other) for other in below[room]), default=-1)
            climbing.discard(room)
        return floors[room]

    for room in sorted(below):
        climb(room)
    return floors


def reach(below, room):
    """Every room that an include leads to, over any number of steps."""
    seen, next_ones = set(), list(below[room])
    while next_ones:
        other = next_ones.pop()
        if other not in seen:
            seen.add(other)
            next_ones += below[other]
    return seen


def is_drawn(below, room, other):
    return not any(other in reach(below, between) for between in below[room] if between != other)


def make_rows(below, floors):
    """Floor -> what stands on it, and the pairs that lines join.  A line that passes a floor has a gap there:
    a tuple (room, other, floor)."""
    rows = [[] for _ in range(max(floors.values()) + 1)]
    pairs = []
    for room in sorted(below):
        rows[floors[room]].append(room)
        for other in sorted(below[room]):
            if not is_drawn(below, room, other):
                continue
            chain = [room] + [(room, other, f) for f in range(floors[room] - 1, floors[other], -1)] + [other]
            for gap in chain[1:-1]:
                rows[gap[2]].append(gap)
            pairs += zip(chain, chain[1:])
    return rows, pairs


def spread(row):
    """Member of a row -> the middle of its place."""
    wide = [GAP if isinstance(node, tuple) else WIDE for node in row]
    left = (WIDTH - sum(wide) - GAP * (len(row) - 1)) / 2
    return {node: left + sum(wide[:i]) + i * GAP + wide[i] / 2 for i, node in enumerate(row)}


def place(rows, pairs):
    """Everything in the rows -> its middle, near that of what it is joined to."""
    middle = {node: x for row in rows for node, x in spread(row).items()}
    for _ in range(8):
        for row in rows + rows[::-1]:
            joined = {node: [middle[b if a == node else a] for a, b in pairs if node in (a, b)] for node in row}
            row.sort(key=lambda node: (sum(joined[node]) / max(1, len(joined[node])), str(node)))
            middle.update(spread(row))
    return middle


def put_box(room, x, y, below):
    name = "gateway/" if room == "gateway" else room + "/"
    lines = textwrap.wrap(" ".join(sorted(below[room])), 29)
    out = [f'  <rect class="box" x="{x - WIDE / 2:.0f}" y="{y}" width="{WIDE}" height="{HIGH}" rx="6"/>',
           f'  <text class="name" x="{x - WIDE / 2 + 10:.0f}" y="{y + 20}">{name}</text>']
    return out + [f'  <text class="quiet" x="{x - WIDE / 2 + 10:.0f}" y="{y + 37 + 14 * i}" font-size="11">{line}</text>'
                  for i, line in enumerate(lines)]


def put_line(start, end, is_last):
    (x1, y1), (x2, y2) = start, end
    bend = (y2 - y1) / 2
    head = ' marker-end="url(#arrow)"' if is_last else ""
    return (f'  <path class="line"{head} d="M{x1:.0f} {y1:.0f} C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} '
            f'{x2:.0f} {y2:.0f}"/>')


def draw():
    below = read_rooms()
    floors = find_floors(below)
    rows, pairs = make_rows(below, floors)
    middle = place(rows, pairs)
    top = {node: MARGIN + (len(rows) - 1 - floor) * FLOOR for floor, row in enumerate(rows) for node in row}
    height = 2 * MARGIN + (len(rows) - 1) * FLOOR + HIGH
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
           'aria-labelledby="title desc"',
           "     font-family=\"ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif\" font-size=\"13\">",
           '  <title id="title">The rooms of gateway/ and what they include</title>',
           f'  <desc id="desc">{len(below)} rooms, {sum(map(len, below.values()))} arrows, no ring. '
           'Drawn by docs/rooms.py.</desc>', STYLE.rstrip()]
    for a, b in pairs:
        is_last = not isinstance(b, tuple)
        out.append(put_line((middle[a], top[a] + HIGH), (middle[b], top[b] - is_last), is_last))
        if not is_last:
            out.append(f'  <path class="line" d="M{middle[b]:.0f} {top[b]} v{HIGH}"/>')
    for room in sorted(below):
        out += put_box(room, middle[room], top[room], below)
    return "\n".join(out + ["</svg>", ""])


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(PICTURE.read_text() != draw() if PICTURE.exists() else 1)
    PICTURE.write_text(draw())
