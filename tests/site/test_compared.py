"""What `docs/compared.md` claims for kbench can be looked at: each page has its address, each test its file."""

import re
from collections import Counter
from pathlib import Path

import pytest
from django.urls import Resolver404, resolve

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "compared.md").read_text()
ROW = re.compile(r"^\| ([^|]+) \| \*\*([YPN])\*\* \|.*\| ([^|]*) \|$", re.MULTILINE)
ROWS = ROW.findall(TEXT)
WORDS = {
    "NAME": "a-team",
    "CODE": "00000000-0000-4000-8000-000000000000",
    "SUITE": "robust-kbench",
    "OP": "layernorm",
    "DIRECTION": "forward",
    "DEVICE": "cpu",
}


def addresses() -> list[str]:
    return sorted(set(re.findall(r"`(/[^`]*)`", TEXT)))


def test_what_is_claimed_says_where_it_is_seen():
    assert [name for name, mark, where in ROWS if mark != "N" and not re.search(r"`/|\.\./tests/", where)] == []


def test_the_sum_at_the_top_is_that_of_the_rows():
    marks = Counter(mark for _, mark, _ in ROWS)
    said = re.search(r"(\d+) features, of which kbench has (\d+), (\d+) in part, (\d+) not", TEXT)
    assert said is not None
    assert list(map(int, said.groups())) == [len(ROWS), marks["Y"], marks["P"], marks["N"]]


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\(\.\./([^)]+)\)", TEXT))))
def test_every_linked_file_exists(path):
    assert (ROOT / path).is_file()


@pytest.mark.parametrize("address", addresses())
def test_every_address_leads_to_a_page(address):
    filled = re.sub("[A-Z]{2,}", lambda found: WORDS[found[0]], address)
    assert resolve(filled).func


def test_an_address_that_leads_nowhere_is_noticed():
    with pytest.raises(Resolver404):
        resolve("/comments/")
