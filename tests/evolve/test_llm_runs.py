"""Whole runs through the real loop and the real SDK: no cap exceeded, no reservation left open, exact dollars."""

import pytest

from tests.evolve.llm_runs import problems, simulate


@pytest.mark.parametrize("first", range(0, 100, 25))
async def test_hostile_runs_keep_every_cap_and_every_cent(first):
    runs = [await simulate(seed) for seed in range(first, first + 25)]
    assert {run.seed: problems(run) for run in runs if problems(run)} == {}
    assert sum(len(run.served) for run in runs) > 50
