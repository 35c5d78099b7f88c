"""picture -- figures as SVG: bars of one scenario beside their bounds, lines of growth, series of a soak.

Plain text assembled by hand, without a library.  For light and dark pages: text and lines take the
colour of the page, the two series have colours that suit both.
"""
import html
import itertools
import math

OURS, BOUND, TARGET = "#2a7de1", "#9aa4b2", "#d9480f"
STYLE = ("<style>text{font:12px system-ui,sans-serif;fill:#5b6470}.t{font-size:15px;font-weight:600}"
         ".v{font-variant-numeric:tabular-nums}@media(prefers-color-scheme:dark){text{fill:#b8c0cc}}</style>")


def number(x):
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(x) >= size:
            return f"{x / (1e3 if sign == 'k' else size):.3g}{sign}"
    return f"{x:.4g}"


def text(x, y, what, anchor="start", kind=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{html.escape(str(what))}</text>'


def rect(x, y, w, h, fill):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(w, 0.5):.1f}" height="{h:.1f}" rx="2" fill="{fill}"/>'


def line(x1, y1, x2, y2, colour, width=1, dash=""):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width}"{f" stroke-dasharray={chr(34)}{dash}{chr(34)}" if dash else ""}/>')


def page(width, height, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
            + STYLE + "".join(parts) + "</svg>\n")


def middle(values):
    values = sorted(values)
    return values[len(values) // 2] if len(values) % 2 else (values[len(values) // 2 - 1] + values[len(values) // 2]) / 2


def bars(title, figures):
    """One row for each figure: ours over its bound, each on its own scale; a mark where the target is."""
    left, wide, high = 400, 340, 52
    parts = [text(16, 26, title, kind="t"), rect(left, 16, 10, 10, OURS), text(left + 14, 26, "ours"),
             rect(left + 60, 16, 10, 10, BOUND), text(left + 74, 26, "bound"),
             line(left + 130, 14, left + 130, 28, TARGET, 2), text(left + 136, 26, "target")]
    for i, figure in enumerate(figures):
        y = 48 + i * high
        bound = middle(figure["bound"]) if figure["bound"] else None
        limit = None
        if figure["limit"] is not None:
            limit = figure["limit"] * bound if figure["of_ratio"] and bound else \
                None if figure["of_ratio"] else figure["limit"]
        top = max(figure["ours"] + figure["bound"] + ([limit] if limit else [])) or 1
        ours = middle(figure["ours"])
        parts += [text(16, y + 17, figure["name"]), text(16, y + 33, figure["unit"]),
                  rect(left, y + 4, wide * ours / top, 16, OURS)]
        if len(figure["ours"]) > 1:
            parts.append(line(left + wide * min(figure["ours"]) / top, y + 12,
                              left + wide * max(figure["ours"]) / top, y + 12, "#0b3d7a", 2))
        ratio = f" · {figure['ratio']:.3g} of it" if figure["ratio"] is not None and figure["of_ratio"] else ""
        parts.append(text(left + wide + 10, y + 17, number(ours) + ratio, kind="v"))
        if bound is not None:
            parts += [rect(left, y + 24, wide * bound / top, 10, BOUND),
                      text(left + wide + 10, y + 34, number(bound), kind="v")]
        if limit:
            parts.append(line(left + wide * limit / top, y, left + wide * limit / top, y + 38, TARGET, 2))
    return page(left + wide + 190, 60 + len(figures) * high, parts)


def ticks(low, high, is_log):
    if is_log:
        return [10.0 ** e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    step = 10 ** math.floor(math.log10(high or 1))
    step = step / 5 if high / step < 2 else step / 2 if high / step < 5 else step
    return [i * step for i in range(int(high / step) + 2)]


def lines(title, x_name, unit, series, is_log=True, width=720, height=320):
    """series: name → [(x, y), ...].  Both axes by powers of ten, or both plain, from 0 up."""
    left, right, top, bottom = 80, 150, 44, 46
    points = [p for s in series.values() for p in s]
    if not points:
        return page(width, height, [text(16, 26, title, kind="t"), text(16, 60, "nothing was measured")])
    ys = [y for _, y in points if y > 0] or [1]
    is_log = is_log and min(x for x, _ in points) > 0
    marks_y = ticks(min(ys), max(ys), is_log)
    low_y, high_y = (marks_y[0], marks_y[-1]) if is_log else (0, marks_y[-1])
    xs = sorted({x for x, _ in points})
    low_x, high_x = xs[0], xs[-1] if xs[-1] > xs[0] else xs[0] + 1

    def place(value, low, high, begin, end):
        if is_log:
            value, low, high = math.log10(max(value, low)), math.log10(low), math.log10(high)
        return begin + (end - begin) * (value - low) / ((high - low) or 1)

    def at(x, y):
        return (place(x, low_x, high_x, left, width - right),
                place(y, low_y, high_y, height - bottom, top))

    parts = [text(16, 26, f"{title}, {unit}", kind="t")]
    for y in marks_y:
        parts += [line(left, at(low_x, y)[1], width - right, at(low_x, y)[1], "#c8ced6", 0.5),
                  text(left - 8, at(low_x, y)[1] + 4, number(y), "end", "v")]
    for x in xs if len(xs) <= 6 else [low_x, (low_x + high_x) / 2, high_x]:
        parts.append(text(at(x, low_y)[0], height - bottom + 18, number(x), "middle", "v"))
    parts.append(text((left + width - right) / 2, height - 8, x_name, "middle"))
    palette = itertools.cycle([OURS, "#2f9e44", "#ae3ec9", "#e8590c", "#0c8599"])
    colours = [BOUND if name == "bound" else next(palette) for name in series]
    for (name, values), colour in zip(series.items(), colours):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*p) for p in sorted(values)))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        if len(values) <= 12:
            parts += [f'<circle cx="{at(*p)[0]:.1f}" cy="{at(*p)[1]:.1f}" r="3" fill="{colour}"/>' for p in values]
    last = sorted(((at(*sorted(v)[-1])[1], n, c) for (n, v), c in zip(series.items(), colours) if v))
    y_text = top - 20
    for y, name, colour in last:  # the names at the ends, apart from each other
        y_text = max(y, y_text + 14)
        parts.append(f'<text x="{width - right + 8}" y="{y_text + 4:.1f}" style="fill:{colour}">{html.escape(name)}</text>')
    return page(width, height, parts)
