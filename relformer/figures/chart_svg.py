"""A chart as SVG whose colours the page decides: classes `s0` to `s7` for lines, `axis`, `grid` and `mark`."""

from __future__ import annotations

from html import escape

from relformer.figures.chart import Band, Chart, Dot, Point, Stroke, Text, dash_of, shapes
from relformer.figures.length_curve import PALETTE

DASHED = {"-": "", "--": "6 3", "-.": "8 3 2 3", ":": "2 3"}


def chart_svg(chart: Chart) -> str:
    """One `<svg>` element, readable by name (its title) and by a pointer (each line and dot says what it is)."""
    found, height = shapes(chart)
    head = f'<svg class="chart" viewBox="0 0 {chart.width} {height}" width="{chart.width}" role="img">'
    return "\n".join([head, f"<title>{escape(chart.title)}</title>", *map(element, found), "</svg>"])


def element(shape: Stroke | Band | Dot | Text) -> str:
    match shape:
        case Band(points, role):
            return f'<polygon class="band {kind(role)}" points="{listed(points)}"/>'
        case Stroke(points, role, label):
            dash = f' stroke-dasharray="{DASHED[dash_of(role)]}"' if dash_of(role) != "-" else ""
            name = f"<title>{escape(label)}</title>" if label else ""
            return f'<polyline class="line {kind(role)}"{dash} points="{listed(points)}">{name}</polyline>'
        case Dot((x, y), role, label):
            place = f'cx="{x:.1f}" cy="{y:.1f}" r="3"'
            return f'<circle class="dot {kind(role)}" {place}><title>{escape(label)}</title></circle>'
        case Text((x, y), text, anchor, size, turned):
            turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
            place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
            return f"<text {place}{turn}>{escape(text)}</text>"


def kind(role: str | int) -> str:
    return f"s{role % len(PALETTE)}" if isinstance(role, int) else role


def listed(points: list[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
