"""An agent of your own on a kbench site: open a run, send kernels, read what the judge says of them.

    with ExternalRun("mnist_linear_relu/forward", judgings=40, agent="mine") as run:
        found = run.judge(source, parents=[], thought="fewer passes")
        print(found["score"], found["feedback"])

KBENCH_URL names the site and KBENCH_TOKEN who asks; KBENCH_RUN joins a run that is open instead of opening one.
`openevolve` and `shinka` give the evaluators of those frameworks. Does NOT propose anything.
"""

import argparse
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .client import Client

WAIT_S = 30.0
Found = dict[str, Any]  # a candidate as the API gives it


class ExternalRun:
    """One run; on leaving the `with` it is closed, if this object has opened it."""

    def __init__(self, task: str = "", *, client: Client | None = None, **wanted: Any) -> None:
        self.client = client or Client()
        joined = os.environ.get("KBENCH_RUN", "")
        opened = None if joined else self.client.post("runs", {"task": task, "kind": "external", **wanted})
        self.id: str = opened["id"] if opened else joined
        self.is_ours = opened is not None

    def send(self, source: str, **about: Any) -> Found:
        """`about`: parents, name, thought, prompt, operator, model, input_tokens, output_tokens, usd, key."""
        return dict(self.client.send_candidate(self.id, {"source": source, **about}))

    def wait(self, candidate: str) -> Found:
        """The candidate once it was judged or refused."""
        while not (found := self.client.candidate(self.id, candidate, WAIT_S))["ended"]:
            pass
        return dict(found)

    def judge(self, source: str, **about: Any) -> Found:
        return self.wait(self.send(source, **about)["id"])

    def close(self, text: str = "") -> None:
        self.client.close_run(self.id, text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.is_ours:
            self.close("" if error is None else f"The agent ended with {type(error).__name__}.")


def metrics_of(found: Found) -> dict[str, float]:
    """What evolutionary frameworks maximise; a kernel without a score counts 0."""
    known = {"vs_eager": found["vs_eager"], "vs_compile": found["vs_compile"]}
    counted = {name: float(value) for name, value in known.items() if value is not None}
    return {"combined_score": float(found["score"] or 0.0), "correct": float(found["score"] is not None), **counted}


def feedback_of(found: Found) -> str:
    return str(found["refused"] or found["feedback"] or found["reason"] or "")


def judged_program(run: ExternalRun, program_path: str) -> Found:
    """A framework that evaluates a program again, as after a failure of its own, gets what was found before."""
    source = Path(program_path).read_text()
    return run.judge(source, key=hashlib.sha256(source.encode()).hexdigest())


def openevolve(run: ExternalRun, result: Callable[..., Any] | None = None) -> Callable[[str], Any]:
    """The `evaluate` of OpenEvolve. With its `EvaluationResult` as `result` the feedback reaches the next prompt."""

    def evaluate(program_path: str) -> Any:
        found = judged_program(run, program_path)
        metrics = metrics_of(found)
        return metrics if result is None else result(metrics=metrics, artifacts={"feedback": feedback_of(found)})

    return evaluate


def shinka(run: ExternalRun, arguments: Sequence[str] | None = None) -> None:
    """The whole `evaluate.py` of ShinkaEvolve, which calls it with `--program_path` and `--results_dir`.

    Writes `metrics.json` and `correct.json` into the folder of results.
    """
    options = argparse.ArgumentParser(description="have a kernel judged by a kbench site")
    options.add_argument("--program_path", required=True)
    options.add_argument("--results_dir", required=True, type=Path)
    chosen = options.parse_args(arguments)
    found = judged_program(run, chosen.program_path)
    metrics, folder, correct = metrics_of(found), chosen.results_dir, found["score"] is not None
    folder.mkdir(parents=True, exist_ok=True)
    public = {name: value for name, value in metrics.items() if name != "combined_score"}
    told = {"combined_score": metrics["combined_score"], "public": public, "private": {}}
    (folder / "metrics.json").write_text(json.dumps({**told, "text_feedback": feedback_of(found)}))
    error = None if correct else feedback_of(found)
    (folder / "correct.json").write_text(json.dumps({"correct": correct, "error": error}))
