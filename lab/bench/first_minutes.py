"""The first minutes of a visitor: `python -m lab.bench.first_minutes [--task OP/DIRECTION] [--out FILE]`.

From a bare data folder: what `make run` prepares once, and then the whole site with the real judge and its examples.
Measured in seconds: that preparation; from the start of the site, when `ready` is said; when a board of recorded
results comes back, and, for a kernel posted through the form at once, when it had a provisional score and a verdict,
counted from `ready`. Numbers from a busy machine are worth little: the load average stands beside them.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from datetime import datetime
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

from lab.bench.first_runs import machine
from tests.stack import ROOT, Stack

TASK = "mnist_linear_relu/forward"
KERNEL = "the visitor's own kernel"
OUT = ROOT / "docs" / "results" / "first_minutes.json"
WAIT_S = 110.0
ROW = "select state, verdict, provisional, score, reason_text from benchmarks_evaluation where code = ?"
EVENTS = "select created, kind, payload from benchmarks_event where topic = ? order by id"
TESTED = "select role, started, tested, test_passed from benchmarks_worker where role in ('judge', 'compile')"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--task", default=TASK, metavar="OP/DIRECTION")
    parser.add_argument("--out", type=Path, default=OUT)
    chosen = parser.parse_args()
    kept = json.loads(chosen.out.read_text()) if chosen.out.exists() else []
    kept.append(measurement(chosen.task))
    chosen.out.write_text(json.dumps(kept, indent=1) + "\n")
    print(json.dumps(kept[-1], indent=1))
    return 0 if kept[-1]["verdict"] == "PASS" else 1


def measurement(task: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="kb-first-") as folder:
        stack = Stack(Path(folder), settings="kbench_site.settings")
        stack.environment["KBENCH_EXAMPLES"] = "1"
        before = machine()
        prepare_s = prepared(stack)
        started_s = time.time()
        try:
            stack.start()
            stack.wait(lambda: "ready: " in stack.output.read_text(), 120, "it was never ready")
            ready_s = time.time() - started_s
            board = recorded_board(stack)
            board_s = time.time() - started_s - ready_s
            code = posted(stack, task)
            posted_s = time.time() - started_s - ready_s
            found = followed(stack, code, started_s + ready_s)
        finally:
            stack.down()
    first = {
        "task": task,
        "machine_before": before,
        "prepare_s": prepare_s,
        "ready_s": round(ready_s, 1),
        "board": board,
    }
    return {**first, "board_after_ready_s": round(board_s, 1), "posted_after_ready_s": round(posted_s, 1), **found}


def prepared(stack: Stack) -> float:
    """How long the installation takes beside packages."""
    started_s = time.time()
    subprocess.run([sys.executable, "manage.py", "prepare", "--builds"], cwd=ROOT, env=stack.environment, check=True)
    return round(time.time() - started_s, 1)


def recorded_board(stack: Stack) -> dict[str, Any]:
    """The first board of recorded results that the home page links to, with its rows."""
    path = re.findall(r'href="(/recorded/[^"/]+/[^"]+/(?:forward|backward)/)"', stack.fetch("/")[1])[0]
    return {"path": path, "rows": stack.fetch(path)[1].count("<tr")}


def posted(stack: Stack, task: str) -> str:
    """The code of a submission through the form of the task, without an account: a shipped kernel with a new line."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    op, direction = task.split("/")
    page = f"http://127.0.0.1:{stack.port}/tasks/robust-kbench/{task}/submit/"
    form = opener.open(page, timeout=30).read().decode()
    fields = dict(re.findall(r'name="(csrfmiddlewaretoken|client_token)" value="([^"]*)"', form))
    kernel = ROOT / "benchmarks" / "suites" / "robust_kbench" / op / "kernels" / f"{direction}_cpu.cpp"
    fields |= {"language": "cpp", "text": f"// {KERNEL}\n{kernel.read_text()}", "visibility": "public"}
    answer = opener.open(page, urllib.parse.urlencode(fields).encode(), timeout=30)
    return answer.url.rstrip("/").rsplit("/", 1)[1].replace("-", "")


def followed(stack: Stack, code: str, ready_at_s: float) -> dict[str, Any]:
    """Until it has a verdict: every change of the evaluation, in seconds after `ready`."""
    provisional_s: float | None = None
    while time.time() < ready_at_s + WAIT_S:
        state, verdict, provisional, speedup, reason = stack.rows(ROW, code)[0]
        if provisional is not None and provisional_s is None:
            provisional_s = round(time.time() - ready_at_s, 1)
        if state in ("done", "cancelled", "expired"):
            break
        time.sleep(0.1)
    ended_s = round(time.time() - ready_at_s, 1) if verdict else None
    topic = f"evaluation:{code[:8]}-{code[8:12]}-{code[12:16]}-{code[16:20]}-{code[20:]}"
    steps = [
        [round(_seconds(at) - ready_at_s, 1), kind, *json.loads(payload).values()]
        for at, kind, payload in stack.rows(EVENTS, topic)
    ]
    tested = {
        role: [round(_seconds(value) - ready_at_s, 1) if value else None for value in (started, tested)]
        for role, started, tested, _ in stack.rows(TESTED)
    }
    scores = {"provisional": provisional, "provisional_after_ready_s": provisional_s, "speedup": speedup}
    ended = {"verdict": verdict, "verdict_after_ready_s": ended_s, "reason": reason}
    return {**scores, **ended, "workers_started_and_tested_s": tested, "steps": _spans(steps)}


def _spans(steps: list[list[Any]]) -> list[list[Any]]:
    """The first of every run of equal steps: progress within one of them is left out."""
    kept: list[list[Any]] = []
    for step in steps:
        name = [word for word in step[1:] if isinstance(word, str)]
        if not kept or kept[-1][1:] != name:
            kept.append([step[0], *name])
    return kept


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).replace(tzinfo=None).timestamp()


if __name__ == "__main__":
    sys.exit(main())
