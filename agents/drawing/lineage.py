"""The lineage of candidates as a picture: generations from left to right, islands as lanes, outcomes as marks.

Of a long run only the last generations are drawn, and always the ancestors of the best candidate. Does NOT replace the
table of candidates, which says the same in words.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..models import Candidate
from ..record.snapshots import Scene
from ..states import CandidateState

GENERATIONS_MAX = 30
NODES_MAX = 600  # the newest; an agent of its own may put all candidates into one generation
COLUMN, ROW, MARGIN, LABEL = 26, 18, 14, 64


@dataclass(frozen=True)
class Node:
    key: str
    x: int
    y: int
    css: str
    label: str


@dataclass(frozen=True)
class Edge:
    path: str
    css: str


@dataclass(frozen=True)
class Lane:
    title: str
    y: int
    height: int


@dataclass(frozen=True)
class Lineage:
    nodes: list[Node]
    edges: list[Edge]
    lanes: list[Lane]
    width: int
    height: int
    hidden: int  # generations left out


def lineage(scene: Scene) -> Lineage | None:
    shown = _shown(scene)
    if not shown:
        return None
    columns = {number: place for place, number in enumerate(sorted({row.generation for row in shown}))}
    lanes, places = _rows(shown)
    nodes = {row.key: _node(row, scene, columns, places) for row in shown}
    return Lineage(
        nodes=list(nodes.values()),
        edges=_edges(shown, nodes, scene.path_to_best),
        lanes=lanes,
        width=LABEL + len(columns) * COLUMN + MARGIN,
        height=lanes[-1].y + lanes[-1].height + MARGIN,
        hidden=len({row.generation for row in scene.rows}) - len(columns),
    )


def _shown(scene: Scene) -> list[Candidate]:
    last = max((row.generation for row in scene.rows), default=0)
    first = last - GENERATIONS_MAX + 1
    newest = [row for row in scene.rows if row.generation >= first][-NODES_MAX:]
    path = [row for row in scene.rows if row.key in scene.path_to_best][-NODES_MAX:]
    return sorted({row.key: row for row in (*path, *newest)}.values(), key=lambda row: row.position)


def _rows(shown: Sequence[Candidate]) -> tuple[list[Lane], dict[tuple[int, int], int]]:
    """The lanes, and the height of each (island, slot) in them."""
    lanes: list[Lane] = []
    places: dict[tuple[int, int], int] = {}
    y = MARGIN
    for island in sorted({row.island for row in shown}):
        slots = sorted({row.slot for row in shown if row.island == island})
        places |= {(island, slot): y + ROW // 2 + place * ROW for place, slot in enumerate(slots)}
        lanes.append(Lane(f"Island {island}", y, len(slots) * ROW))
        y += len(slots) * ROW + ROW // 2
    return lanes, places


def _node(row: Candidate, scene: Scene, columns: dict[int, int], places: dict[tuple[int, int], int]) -> Node:
    x = LABEL + columns[row.generation] * COLUMN + COLUMN // 2
    best = " best" if row.key == scene.run.best_key else ""
    return Node(row.key, x, places[row.island, row.slot], mark_of(row) + best, f"{row.key}: {words_of(row)}")


def _edges(shown: Sequence[Candidate], nodes: dict[str, Node], path: set[str]) -> list[Edge]:
    found = []
    for row in shown:
        for parent in row.parents:
            if parent in nodes and parent != row.key:
                css = "path" if row.key in path and parent in path else "plain"
                found.append(Edge(_line(nodes[parent], nodes[row.key]), css))
    return sorted(found, key=lambda edge: edge.css == "path")


def _line(start: Node, end: Node) -> str:
    middle = (start.x + end.x) // 2
    return f"M{start.x} {start.y}C{middle} {start.y} {middle} {end.y} {end.x} {end.y}"


def mark_of(row: Candidate) -> str:
    """The kind of outcome, as a class of the style sheet."""
    if row.state == CandidateState.DROPPED:
        return "dropped"
    if row.state != CandidateState.DONE:
        return "flying"
    return "failed" if row.score is None else "better" if row.improved else "accepted"


def words_of(row: Candidate) -> str:
    if row.state == CandidateState.DROPPED:
        return f"not judged, {row.drop_reason.replace('_', ' ')}"
    if row.state != CandidateState.DONE:
        return row.get_state_display().lower()
    return f"{row.score:.3f}×" if row.score is not None else row.verdict
