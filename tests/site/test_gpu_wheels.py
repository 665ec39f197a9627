"""The list of packages that travel to a GPU host names every dependency: as a wheel, or as left out."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _names(text: str) -> set[str]:
    return set(re.findall(r"[a-z][a-z0-9-]+", text.lower().replace("_", "-")))


def test_every_dependency_is_a_wheel_or_named_in_the_head() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {_first(line) for line in project["dependencies"]}
    assert needed - _names((ROOT / "lab/gpu/wheels.txt").read_text()) == set()


def _first(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9-]+", requirement)
    assert found, requirement
    return found.group().lower()
