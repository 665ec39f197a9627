"""The labelled corpus: its mutants are what was judged, and V0 rejects no more correct ones than was measured."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agents.evolve.verifiers.corpus import Label, Specimen, planned, read_labels, seeds
from agents.evolve.verifiers.matrix import confusion, truth_of
from agents.evolve.verifiers.mutations import FAULTS, OPERATORS, Operator
from agents.evolve.verifiers.replay import CASCADE, figures, replay, stale, stored
from agents.management.commands.score_verifiers import lines

ROOT = Path(__file__).parents[2]
ALLOWED_FALSE_REJECTS = 0  # measured on the whole corpus


@pytest.fixture(scope="module")
def labels() -> list[Label]:
    return read_labels()


@pytest.fixture(scope="module")
def plan() -> list[Specimen]:
    return planned(faulty=1, equivalent=1)


def test_the_corpus_is_large_and_of_both_kinds(labels: list[Label]) -> None:
    truths = Counter(truth_of(item.verdict) for item in labels)
    assert len(labels) >= 200
    assert min(truths["correct"], truths["incorrect"]) >= 60
    assert len({item.operator for item in labels if item.specimen.fault not in ("correct", "equivalent")}) >= 15


def test_every_label_is_of_the_text_that_was_judged(labels: list[Label]) -> None:
    assert stale(labels) == []
    assert len({item.sha256 for item in labels}) == len(labels)


def test_every_seed_is_correct(labels: list[Label]) -> None:
    verdicts = {item.seed: item.verdict for item in labels if item.operator is None}
    assert verdicts == {item.seed: "PASS" for item in seeds()}


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda item: item.name)
def test_each_operator_changes_some_seed(operator: Operator, plan: list[Specimen]) -> None:
    """Chosen mutants differ from their seed, and an operator has one."""
    mine = [item for item in plan if item.operator == operator.name]
    assert operator.fault in FAULTS
    assert mine
    assert all(item.text != Specimen(item.seed).text for item in mine)


def test_the_plan_depends_on_nothing_but_names(plan: list[Specimen]) -> None:
    assert planned(faulty=1, equivalent=1) == plan
    assert len({item.sha256 for item in plan}) == len(plan)


def test_v0_rejects_no_more_correct_kernels_than_was_measured(labels: list[Label]) -> None:
    found = confusion(row for row in replay(labels) if row.verifier == "static")
    assert found.rejected_correct <= ALLOWED_FALSE_REJECTS
    assert found.rejected_incorrect >= 20


def test_v1_read_from_labels_agrees_with_the_verdicts(labels: list[Label]) -> None:
    """What did not compile was judged COMPILE_ERROR, and its log names an error."""
    opinions = [(item.verdict, stored(item)) for item in labels]
    refused = [(verdict, opinion) for verdict, opinion in opinions if opinion and opinion.decision == "reject"]
    assert refused
    assert {verdict for verdict, _ in refused} == {"COMPILE_ERROR"}
    assert all(opinion.reasons and opinion.reasons[0].line for _, opinion in refused)


def test_the_published_figures_add_up(labels: list[Label]) -> None:
    found = figures(labels, replay(labels))
    assert found["kernels"] == found["correct"] + found["incorrect"]
    for name, matrix in found["verifiers"].items():
        assert matrix["rows"] == sum(item["rows"] for item in found["faults"][name].values())
    assert found["verifiers"][CASCADE]["rows"] == len(labels)


def counts(figures: dict[str, Any]) -> dict[str, Any]:
    """Of what is published, all that a second replay gives again: everything but seconds."""
    kept = ("kernels", "correct", "incorrect", "seeds", "operators", "survivors", "families")
    matrices = {
        name: {key: value for key, value in item.items() if "_s" not in key and key != "seconds"}
        for name, item in figures["verifiers"].items()
    }
    return {**{name: figures[name] for name in kept}, "verifiers": matrices}


def test_the_kept_result_is_that_of_this_corpus(labels: list[Label]) -> None:
    kept = json.loads((ROOT / "docs/results/verifiers.json").read_text())
    assert counts(kept) == json.loads(json.dumps(counts(figures(labels, replay(labels)))))


def test_the_tables_in_the_docs_are_those_of_the_kept_result() -> None:
    kept = json.loads((ROOT / "docs/results/verifiers.json").read_text())
    text = (ROOT / "docs/agents.md").read_text()
    assert [line for line in lines(kept) if line not in text] == []
