"""Requests and candidates by hand, for the tests of what is asked and what is made of answers."""

import hashlib

from agents.evolve.budget import Caps, Cost
from agents.evolve.model import (
    ArchiveView,
    CandidateView,
    JudgeResult,
    NoProposal,
    ProposalRequest,
    Reason,
    VerifierOpinion,
)
from agents.evolve.rng import Rng
from benchmarks.harness import default_suites, find_task

TASK = find_task(default_suites(), "mnist_linear_relu/forward")
CONFIG = TASK.configs_for("cpu")[0]
SOURCES = {}


def row(**changes):
    values = {"key": CONFIG.key, "group": "single", "correct": True, "kernel_us": 50.0, "eager_us": 100.0}
    return {**values, "compile_us": 90.0, "speedup": 1.8, "roofline_fraction": 0.25, **changes}


def candidate(name, score, source=None, **changes):
    generation, slot = map(int, name.split("-"))
    text = source or f"// source of {name}\nint forward_{slot}() {{ return {slot}; }}\n"
    result = JudgeResult("PASS", "fine", score, configs=(row(),), resources={"registers": 40, "spill_bytes": 8})
    values = {
        "result": result,
        "state": "judged",
        "source_sha256": keep(text),
        "language": "cpp",
        "name": f"kernel {name}",
    }
    return CandidateView(name, generation, slot, 0, "optimise", **{**values, **changes})


def failed(name, result=None, log="", dropped=None):
    generation, slot = map(int, name.split("-"))
    sha256 = keep(f"// source of {name}\nint wrong;\n")
    common = {"source_sha256": sha256, "language": "cpp"}
    if dropped is not None:
        opinions = {"static": VerifierOpinion("reject", (Reason(dropped, 7),))}
        return CandidateView(name, generation, slot, 0, "optimise", state="dropped", opinions=opinions, **common)
    result = result or JudgeResult("COMPILE_ERROR", "it does not compile", log_tail=log)
    return CandidateView(name, generation, slot, 0, "optimise", state="judged", result=result, **common)


def refused(name, reason="provider_error", usd=0.0, text="no answer", output_tokens=0):
    generation, slot = map(int, name.split("-"))
    refusal, cost = NoProposal(reason, text), Cost(usd, output_tokens=output_tokens)
    return CandidateView(name, generation, slot, 0, "optimise", state="refused", refusal=refusal, cost=cost)


def keep(text):
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    SOURCES[sha256] = text
    return sha256


def view_of(candidates):
    return ArchiveView(0, {item.id: item for item in candidates}, ((), ()), {}, {}, SOURCES.__getitem__)


def request_of(*, parents=(), failure=None, others=(), stage="optimise", generation=5, slot=0, budget=None, seed=1):
    known = [*parents, *([failure] if failure else []), *others]
    return ProposalRequest(
        task=TASK,
        language="cpp",
        device_kind="cpu",
        stage=stage,
        generation=generation,
        slot=slot,
        island=0,
        parents=tuple(parents),
        view=view_of(known),
        rng=Rng(seed, "propose", generation, slot),
        last_failure=failure,
        budget_left=budget or Caps(judgings=40),
    )
