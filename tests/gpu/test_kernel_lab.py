"""Variants of shipped kernels that the bench finds in the repository. Not covered: their times, which need a GPU."""

import pytest

from scripts.kernel_lab import ROOT, chosen, edited, find_variants

VARIANTS = ROOT / "scripts/kernel_variants"


def test_every_edit_fits_the_shipped_kernel_and_changes_it() -> None:
    found = list(find_variants(VARIANTS))
    shipped = {one.task: one.text for one in found if one.name == "shipped"}
    variants = [one for one in found if one.name != "shipped"]
    assert len({(one.task, one.name) for one in found}) == len(found)
    assert variants
    assert all(one.text != shipped[one.task] for one in variants)


def test_an_edit_replaces_every_place() -> None:
    assert edited("a b a", {"a": "c"}) == "c b c"


def test_an_edit_of_what_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="older than it"):
        edited("a", {"b": "c"})


def test_the_shipped_kernel_comes_first_among_the_chosen() -> None:
    names = [one.name for one in chosen(VARIANTS, ["llama_rmsnorm/forward t64"])]
    assert names == ["shipped", "t64"]
