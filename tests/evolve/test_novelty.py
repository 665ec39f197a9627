"""What counts as seen before."""

import pytest

from agents.evolve.model import CandidateView, JudgeResult, VerifierOpinion
from agents.evolve.novelty import NEAR, Novelty, fingerprint, twin

LOOP = "#define TILE 8\nvoid f(float *a, int n) {\n  for (int i = 0; i < n; ++i) a[i] = a[i] * 2.0f + 1.0f;\n}\n"
LONG = "\n".join(f"float g{i}(float x) {{ return x * {i}.0f + helper(x, {i}); }}" for i in range(40))
SCRIPT = "def forward(x):\n    if x:\n        return 1\n    return 2\n"


def test_comments_and_layout_do_not_count() -> None:
    other = LOOP.replace("\n  for", "  // faster\n\n\tfor").replace("{", "{ /* here */")
    assert fingerprint(LOOP, "cpp").sha256 == fingerprint(other, "cpp").sha256


@pytest.mark.parametrize(
    ("old", "new"), [("TILE 8", "TILE 16"), ("< n", "<= n"), ("TILE 8\n", "TILE 8 "), ("a[i] *", '"// a" *')]
)
def test_code_counts(old: str, new: str) -> None:
    assert fingerprint(LOOP, "cpp").sha256 != fingerprint(LOOP.replace(old, new), "cpp").sha256


def test_the_layout_of_python_counts() -> None:
    same, moved = SCRIPT.replace("return 1", "return 1  # one"), SCRIPT.replace("    return 2", "        return 2")
    assert fingerprint(SCRIPT, "triton").sha256 == fingerprint(same, "triton").sha256
    assert fingerprint(SCRIPT, "triton").sha256 != fingerprint(moved, "triton").sha256


def test_likeness_estimates_the_share_of_equal_runs() -> None:
    lines = LONG.splitlines()
    half = "\n".join([*lines[:20], *(line.replace("helper", "other") for line in lines[20:])])
    one, other = fingerprint(LONG, "cpp"), fingerprint(half, "cpp")
    assert one.likeness(one) == 1
    assert 0.3 < one.likeness(other) < 0.8
    assert one.likeness(fingerprint(LOOP, "cpp")) < 0.05


def test_one_other_word_is_near_but_another_constant_is_not() -> None:
    one = fingerprint(LONG, "cpp")
    word, constant = LONG.replace("float g7(", "float h7("), LONG.replace("x * 7.0f", "x * 8.5f")
    assert one.likeness(fingerprint(constant, "cpp")) >= NEAR
    assert one.near(fingerprint(word, "cpp"))
    assert not one.near(fingerprint(constant, "cpp"))


def candidate(
    name: str, source: str, verdict: str | None = None, params: dict[str, int] | None = None
) -> CandidateView:
    result = None if verdict is None else JudgeResult(verdict, "so", score=1.0 if verdict == "PASS" else None)
    return CandidateView(
        name, 0, 0, 0, "optimise", source_sha256=source, language="cpp", params=params, result=result, state="judged"
    )


def refused(new: CandidateView, *earlier: CandidateView) -> bool:
    return Novelty(lambda text: text).duplicate(new, earlier) is not None


def test_a_repair_of_one_word_is_compared_with_accepted_kernels_alone() -> None:
    repair = candidate("new", LONG.replace("float g7(", "float h7("))
    assert refused(repair, candidate("old", LONG, "PASS"))
    assert not refused(repair, candidate("old", LONG, "INCORRECT_VALUE"))


def test_the_same_text_is_refused_unless_the_judge_failed() -> None:
    new = candidate("new", LOOP + "// again\n")
    assert refused(new, candidate("old", LOOP, "COMPILE_ERROR"))
    assert not refused(new, candidate("old", LOOP, "INTERNAL_ERROR"))


def test_templates_are_told_apart_by_their_text() -> None:
    other = LONG.replace("float g7(", "float h7(")
    assert not refused(candidate("new", other, params={"a": 1}), candidate("old", LONG, "PASS", params={"a": 2}))
    assert refused(candidate("new", LONG, params={"a": 1}), candidate("old", LONG, "PASS", params={"a": 2}))


def test_a_twin_has_the_same_binary() -> None:
    def built(name: str, state: str, sha256: str | None) -> CandidateView:
        opinion = VerifierOpinion("accept", resources={"binary_sha256": sha256} if sha256 else None)
        return CandidateView(name, 0, 0, 0, "optimise", state=state, opinions={"compile": opinion})

    new = built("new", "verified", "abc")
    earlier = [built("a", "judged", "xyz"), built("b", "dropped", "abc"), built("c", "judged", "abc")]
    assert twin(new, earlier) == earlier[2]
    assert twin(built("new", "verified", None), [built("d", "judged", None)]) is None
