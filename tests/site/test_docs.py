"""Docs and templates as files: working links, a complete index, lines that can be reviewed. Does NOT read prose."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
TEMPLATE_LINE_MAX = 160


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_and_a_title(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text()):
        file = page.parent / target if target else page
        assert file.exists(), (page.name, target)
        assert not anchor or anchor in anchors(file), (page.name, target, anchor)


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    assert [page.name for page in (ROOT / "docs").glob("*.md") if f"({page.name})" not in index] == ["index.md"]


def test_lines_of_templates_can_be_reviewed() -> None:
    files = [file for file in (ROOT / "templates").rglob("*") if file.suffix in (".html", ".svg")]
    lines = [(file.name, line) for file in files for line in file.read_text().split("\n")]
    assert [line for line in lines if len(line[1]) > TEMPLATE_LINE_MAX] == []
