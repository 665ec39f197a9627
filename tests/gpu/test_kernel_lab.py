"""Variants of shipped kernels that the bench finds. Not covered: their times, which need a GPU."""

from pathlib import Path

import pytest

from lab.gpu.kernel_lab import ROOT, chosen, edited, find_variants

VARIANTS = ROOT / "lab/gpu/variants"


def test_every_edit_fits_the_shipped_kernel_and_changes_it() -> None:
    found = list(find_variants(VARIANTS)) if VARIANTS.exists() else []
    shipped = {one.task: one.text for one in found if one.name == "shipped"}
    variants = [one for one in found if one.name != "shipped"]
    assert len({(one.task, one.name) for one in found}) == len(found)
    assert all(one.text != shipped[one.task] for one in variants)


def test_an_edit_replaces_every_place() -> None:
    assert edited("a b a", {"a": "c"}) == "c b c"


def test_an_edit_of_what_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="older than it"):
        edited("a", {"b": "c"})


def test_the_shipped_kernel_comes_first_among_the_chosen(tmp_path: Path) -> None:
    room = tmp_path / "llama_rmsnorm.forward"
    room.mkdir()
    (room / "edits.toml").write_text('[t64]\n"kThreads = 128;" = "kThreads = 64;"\n[t32]\n"kThreads = 128;" = ""\n')
    (room / "whole.cu").write_text("//! one\n//! two -DTWO=1\nint x;\n")
    assert [one.name for one in find_variants(tmp_path)] == ["shipped", "t64", "t32", "whole:one", "whole:two"]
    assert [one.name for one in chosen(tmp_path, ["llama_rmsnorm/forward t64"])] == ["shipped", "t64"]
