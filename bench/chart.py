"""Draw what scripts/bench.sh measured, and the peers' times where scripts/bench_peers.sh measured them, as SVG."""
import argparse
import csv
import math
import re
from html import escape
from pathlib import Path

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 420, 340, 62, 46, 14, 92
COLORS = {"tandem": "#0072b2", "roofline": "#777777", "onnxruntime": "#d55e00", "openvino": "#009e73",
          "ggml": "#cc79a7"}


def read(path):
    if not path or not Path(path).exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def ours(rows, pattern, dtypes):
    """Points of our times and of the roofline: x is what the pattern captures of a warm, one-thread shape, a power of
    two: others are neighbours that --suite cliffs compares."""
    lines = {"tandem": {}, "roofline": {}}
    for row in rows:
        found = re.fullmatch(pattern, f"{row['op']} {row['shape']}")
        if found and row["dtypes"] == dtypes and row["threads"] == "1" and row["copies"] == "1":
            x, time = int(found[1]), float(row["median_us"])
            if x & (x - 1):
                continue
            lines["tandem"][x], lines["roofline"][x] = time, time * float(row["share"])
    return lines


def peers(rows, pattern):
    lines = {}
    for row in rows:
        found = re.fullmatch(pattern, row["case"])
        name = row["part"].split()[0]
        if found and name in COLORS:
            lines.setdefault(name, {})[int(found[1])] = float(row["peer"])
    return lines


def panels(own, other):
    """(title, name of x, lines) of each panel."""
    yield ("decode, 16/8 heads of 128, INT8 cache", "T: tokens in the cache",
           ours(own, r"gqa b1 h16/8 d128 q1 kv(\d+)", "f32+int8-tensor")
           | peers(other, r"decode 16/8 d128 int8-tensor T=(\d+) threads=1"))
    yield ("prefill, 16/8 heads of 128, INT8 cache", "S: new tokens",
           ours(own, r"gqa b1 h16/8 d128 q(\d+) kv\1", "f32+int8-tensor")
           | peers(other, r"prefill 16/8 d128 int8-tensor T=(\d+) threads=1"))
    yield ("fp8_matmul, 4096 x 4096", "M: rows of the activation",
           ours(own, r"fp8_matmul m(\d+) n4096 k4096 1x128", "f32+f8e4m3/f32"))


def text(x, y, words, size=11, anchor="middle"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="#222222">'
            f'{escape(words)}</text>')


class Axis:
    """A logarithmic scale from the values to pixels."""

    def __init__(self, values, first, last):
        self.low, self.high = math.log(min(values)), math.log(max(values))
        self.first, self.last = first, last

    def at(self, value):
        span = self.high - self.low or 1
        return self.first + (math.log(value) - self.low) / span * (self.last - self.first)


def decades(values):
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return [10.0 ** power for power in range(first, last + 1)]


def in_words(microseconds):
    for unit, scale in (("s", 1e6), ("ms", 1e3), ("us", 1)):
        if microseconds >= scale:
            return f"{microseconds / scale:g} {unit}"
    return f"{microseconds:g} us"


def panel(title, x_name, lines):
    lines = {name: points for name, points in lines.items() if points}
    parts = [text(WIDTH / 2, 22, title, 13)]
    if not lines:
        return parts + [text(WIDTH / 2, HEIGHT / 2, "not measured")]
    xs = sorted({x for points in lines.values() for x in points})
    ticks = decades([y for points in lines.values() for y in points.values()])
    across, up = Axis(xs, LEFT, WIDTH - RIGHT), Axis(ticks, HEIGHT - BOTTOM, TOP)
    for tick in ticks:
        y = up.at(tick)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        parts.append(text(LEFT - 6, y + 4, in_words(tick), anchor="end"))
    shown = [x for i, x in enumerate(xs) if i == 0 or across.at(x) - across.at(xs[i - 1]) > 18]
    parts += [text(across.at(x), HEIGHT - BOTTOM + 16, str(x), 10) for x in shown]
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 34, x_name))
    for i, (name, points) in enumerate(lines.items()):
        pixels = [(across.at(x), up.at(y)) for x, y in sorted(points.items())]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in pixels)
        dashes = ' stroke-dasharray="5 4"' if name == "roofline" else ""
        parts.append(f'<path d="M{path}" fill="none" stroke="{COLORS[name]}" stroke-width="2"{dashes}/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLORS[name]}"/>' for x, y in pixels]
        left, line = LEFT + i % 3 * 115, HEIGHT - BOTTOM + 56 + i // 3 * 18
        parts.append(f'<path d="M{left} {line - 4}h18" stroke="{COLORS[name]}" stroke-width="2"{dashes}/>')
        parts.append(text(left + 24, line, name, anchor="start"))
    return parts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("own", help="the CSV of scripts/bench.sh")
    parser.add_argument("peers", help="the CSV of scripts/bench_peers.sh, which may be missing")
    parser.add_argument("svg", help="the file to write")
    options = parser.parse_args()
    drawn = [panel(*content) for content in panels(read(options.own), read(options.peers))]
    with open(options.svg, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH * len(drawn)}" height="{HEIGHT}" '
                   f'font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>\n')
        for i, parts in enumerate(drawn):
            file.write(f'<g transform="translate({i * WIDTH} 0)">\n' + "\n".join(parts) + "\n</g>\n")
        file.write("</svg>\n")


if __name__ == "__main__":
    main()
