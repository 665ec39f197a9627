"""The prompt files: read once and filled in one pass, so that placeholders inside inserted text are not replaced.

Not covered: what is filled in (`prompting.py`).
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "prompts"
_MARK = re.compile(r"\{\{(\w+)\}\}")
_HINT = re.compile(r"^## (\w+)\n", re.MULTILINE)


@cache
def prompt(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text().strip()


def filled(name: str, values: Mapping[str, object]) -> str:
    """The file with each `{{word}}` replaced. Raises KeyError for a word without a value."""
    return _MARK.sub(lambda match: str(values[match[1]]), prompt(name))


@cache
def hints() -> dict[str, str]:
    """Where a model may be told to look, by name."""
    parts = _HINT.split(prompt("hints"))[1:]
    return {name: " ".join(text.split()) for name, text in zip(parts[::2], parts[1::2], strict=True)}
