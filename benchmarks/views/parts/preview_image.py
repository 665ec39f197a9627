"""The picture that other sites show beside a link: a title, a score with its interval, and a few facts, as PNG.

Each process keeps the last pictures that it drew.

Social networks and chats show no SVG, so Pillow draws it, with its own font, so that pictures do not depend on the
fonts of a machine. That font has ASCII only; a text with other letters is left out. Does NOT decide what may be shown.
"""

import io
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from benchmarks.harness import SpeedupEstimate

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

WIDTH_PX, HEIGHT_PX = 1200, 630
EDGE_PX = 72
LEAST_PX = 24  # of letters
KEPT = 64  # pictures of some 20 KB
BAR_PX, BARS_END_PX = 300, 960  # where bars begin, and where the longest one ends
PAPER, INK, SOFT, LINE, ACCENT = "#121619", "#e7eaeb", "#a3aeb5", "#74818a", "#6fd0cf"  # as in css/tokens.css, dark


@dataclass(frozen=True)
class LinkPreview:
    """What is shown of a link. `image` is the path of the picture; without a score `verdict` says what there is.

    `times` are those of the kernel and of what it was compared with, the kernel's as the unit.
    """

    title: str
    verdict: str
    image: str
    facts: tuple[str, ...]
    score: SpeedupEstimate | None = None
    times: tuple[tuple[str, float], ...] = ()

    @property
    def text(self) -> str:
        """All of it in one sentence."""
        return ", ".join([self._said(), *self.facts])

    def _said(self) -> str:
        if self.score is None:
            return self.verdict
        interval = f"{self.score.lo:.2f}× to {self.score.hi:.2f}×"
        return f"{self.score.score:.2f}× as fast as the stronger of PyTorch eager and torch.compile ({interval})"


GENERAL = LinkPreview(
    title="A benchmark for CPU and GPU kernels",
    verdict="every speedup with its baseline and interval",
    image="",
    facts=("verified against float64", "timed against PyTorch eager and torch.compile"),
)


@lru_cache(maxsize=KEPT)
def png(preview: LinkPreview) -> bytes:
    from PIL import Image, ImageDraw  # 0.06 s and 10 MB, for those alone who look at a picture

    picture = Image.new("RGB", (WIDTH_PX, HEIGHT_PX), PAPER)
    draw = ImageDraw.Draw(picture)
    _write(draw, 56, "kbench", 34, ACCENT)
    _write(draw, 112, preview.title, 50, INK)
    if preview.score is None:
        _write(draw, 270, preview.verdict[:1].upper() + preview.verdict[1:], 64, INK)
    else:
        interval = f"95 % interval {preview.score.lo:.2f}x to {preview.score.hi:.2f}x"
        _write(draw, 184, f"{preview.score.score:.2f}x", 124, INK)
        _write(draw, 334, f"as fast as the stronger of PyTorch eager and torch.compile, {interval}", 30, SOFT)
        _bars(draw, preview.times)
    _write(draw, 556, "  |  ".join(fact for fact in preview.facts if fact.isascii()), 30, SOFT)
    content = io.BytesIO()
    picture.save(content, "PNG")
    return content.getvalue()


def _bars(draw: "ImageDraw", times: tuple[tuple[str, float], ...]) -> None:
    """How long the kernel and each baseline take, the kernel as the unit."""
    longest = max(time for _, time in times)
    for place, (name, time) in enumerate(times):
        top = 398 + 46 * place
        end = BAR_PX + (BARS_END_PX - BAR_PX) * time / longest
        draw.rectangle([BAR_PX, top, end, top + 30], fill=LINE if place else ACCENT)
        _write(draw, top, name, 26, SOFT)
        draw.text((end + 14, top), f"{time:.2f}x time", fill=SOFT, font=_font(26))


def _write(draw: "ImageDraw", top: int, text: str, size_px: int, colour: str) -> None:
    """One line, smaller or cut where it would not fit. What the font has no letters for is a question mark."""
    shown = text.encode("ascii", "replace").decode()
    length_px = draw.textlength(shown, font=_font(size_px))
    room_px = WIDTH_PX - 2 * EDGE_PX
    fitting_px = size_px if length_px <= room_px else max(LEAST_PX, int(size_px * room_px / length_px))
    while draw.textlength(shown, font=_font(fitting_px)) > room_px:
        shown = shown.removesuffix("...")[:-4] + "..."
    draw.text((EDGE_PX, top), shown, fill=colour, font=_font(fitting_px))


@cache
def _font(size_px: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size_px)
