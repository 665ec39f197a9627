"""Interactive figures, made with Plotly and sent as JSON: values can be read, zoomed into and hidden.

Pages show their charts as SVG; `static/js/figures.js` asks for the figure when a reader wants to explore one. Colours
are names of design tokens, which the script turns into those of light or dark. Does NOT know what any chart shows.
"""

import html
import math
from collections.abc import Sequence
from typing import Any

from django.http import HttpResponse

Parts = dict[str, Any]  # of a figure, in the words of Plotly
BASELINE = "over the stronger baseline"
DASHES = ("solid", "9px,3px", "2px,3px", "12px,3px,2px,3px", "5px,5px", "1px,5px")  # as in css/compare.css
SYMBOLS = ("circle", "square", "diamond", "cross", "triangle-up", "star")


def figure(traces: Sequence[Parts], x: Parts, y: Parts, shapes: Sequence[Parts] = ()) -> Any:
    """A `plotly.graph_objects.Figure`; a ValueError names what Plotly does not know."""
    import plotly.graph_objects as go  # 0.15 s and 20 MB, for those alone who look at a figure

    layout = {
        "template": None,
        "font": {"color": token("ink-soft"), "size": 12},
        "paper_bgcolor": token("surface"),
        "plot_bgcolor": token("surface"),
        "margin": {"l": 8, "r": 16, "t": 40, "b": 8},
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": token("surface"), "bordercolor": token("line-strong"), "align": "left"}
        | {"font": {"color": token("ink")}},
        "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0},
        "showlegend": sum(trace.get("showlegend", True) for trace in traces) > 1,
        "xaxis": x,
        "yaxis": y,
        "shapes": list(shapes),
    }
    return go.Figure(data=list(traces), layout=layout)


def answer(drawn: Any) -> HttpResponse:
    """`{"data": [...], "layout": {...}}`, the form that plotly.js takes."""
    return HttpResponse(drawn.to_json(), content_type="application/json")


def token(name: str) -> str:
    """A colour of `css/tokens.css`."""
    return f"var(--{name})"


def axis(title: str, low: float | None, high: float | None, **more: Any) -> Parts:
    """One axis over `low` to `high`, or over whatever there is; the title says the unit."""
    lines = {"gridcolor": token("line"), "zerolinecolor": token("line"), "linecolor": token("line-strong")}
    known = {} if low is None or high is None else {"range": [low, high]}
    return {"title": {"text": title, "font": {"size": 12}}, "automargin": True, **lines, **known, **more}


def speedup_axis(low: float, high: float) -> Parts:
    """Speedups over the stronger baseline on a logarithmic scale."""
    ends = math.log10(low), math.log10(high)
    return axis("Speedup over the stronger baseline", *ends, type="log", ticksuffix="×", minorloglabels="complete")


def upright(x: float, colour: str) -> Parts:
    """A dashed line from the foot to the top."""
    line = {"color": token(colour), "width": 1, "dash": "3px,3px"}
    return {"type": "line", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1, "line": line}


def level(y: float, colour: str, label: str) -> Parts:
    """A dashed line from side to side, with words on it."""
    line = {"color": token(colour), "width": 1, "dash": "3px,3px"}
    words = {
        "text": label,
        "textposition": "end",
        "yanchor": "bottom",
        "font": {"color": token("ink-soft"), "size": 11},
    }
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line, "label": words}


def lines(*texts: str) -> str:
    """What is said of a point; names that people chose go through `plain` first.

    Bold text would need inline styles, which the content security policy does not allow.
    """
    return "<br>".join(text for text in texts if text)


def plain(name: object) -> str:
    """A name as text: Plotly would read tags and links in it."""
    return html.escape(str(name))


def error_bars(values: Sequence[Sequence[float]]) -> Parts:
    """Error bars from the lower to the upper bound of each (value, low, high)."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - value for value, _, high in values],
        "arrayminus": [value - low for value, low, _ in values],
    }
