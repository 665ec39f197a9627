"""The editor's library as it is shipped, and the headers of the page that has it. What it does: `tests/browser`."""

import hashlib
import json
import re
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from . import factories

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "static/vendor/codemirror"
SOURCES = ROOT / "scripts/editor"
# `make editor` makes exactly these; the second one is of what they are made of.
BUNDLE_SHA256 = "4aae8ffe236d7eb90881b17e7e4df7763884c1210cd85dbae703f3cc1ef875d0"
SOURCES_SHA256 = "d674f0c926ac3a69cb0f8ce54c793785742ee4180910bfd3a1e337e1b9173b23"
BUNDLE_MAX_BYTES = 450_000


def sha256(*files: Path) -> str:
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def test_the_library_is_the_one_that_its_sources_build() -> None:
    assert sha256(BUILT / "codemirror.js") == BUNDLE_SHA256
    assert sha256(*(SOURCES / name for name in ("build.mjs", "entry.js", "package-lock.json"))) == SOURCES_SHA256
    assert (BUILT / "codemirror.js").stat().st_size < BUNDLE_MAX_BYTES


def test_its_licences_name_the_versions_that_are_in_it() -> None:
    told = re.findall(r"^([@\w/-]+) (\d+\.\d+\.\d+)$", (BUILT / "LICENSE.txt").read_text(), re.MULTILINE)
    locked = json.loads((SOURCES / "package-lock.json").read_text())["packages"]
    assert len(told) >= 10
    assert all(locked[f"node_modules/{name}"]["version"] == version for name, version in told)
    assert all(locked[f"node_modules/{name}"]["license"] == "MIT" for name, _ in told)


@pytest.mark.django_db
def test_a_style_element_is_allowed_to_the_editor_alone_and_once(visitor: Client) -> None:
    page = reverse("submit", args=factories.TASK)
    first, second = visitor.get(page), visitor.get(page)
    nonces = [
        re.search(r"style-src 'self' 'nonce-([\w-]{20,})'", answer["Content-Security-Policy"])
        for answer in (first, second)
    ]
    assert nonces[0]
    assert nonces[1]
    assert nonces[0][1] != nonces[1][1]
    assert f'data-nonce="{nonces[0][1]}"' in first.content.decode()
    assert "unsafe" not in first["Content-Security-Policy"]
    assert "nonce" not in visitor.get("/")["Content-Security-Policy"]
