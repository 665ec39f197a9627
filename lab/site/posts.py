"""Fifty submissions posted at the same moment: each is taken or refused with a reason, and none is lost.

Five posts each of ten accounts, whose quota has room for three at a time. Whatever was answered is then looked up in
the database: a 202 is one submission with one evaluation that ends, anything else left no trace.
"""

import json
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from typing import Any

from lab.site.serving import Site

POSTS = 50
PER_ACCOUNT = 5
REFUSALS = {429, 503}
ENDED_WITHIN_S = 120
LOOK = """
import json, sys
from benchmarks.models import Submission
rows = Submission.objects.filter(title__startswith="Posted at once ").values_list("code", "evaluations__state")
print(json.dumps([[str(code), state] for code, state in rows]))
"""


@dataclass(frozen=True)
class PostResult:
    """What came back: `code` is of the submission or of the problem."""

    status: int
    code: str
    took_s: float
    retry_after: str | None


def measure(site: Site, posts: int = POSTS) -> dict[str, Any]:
    barrier = Barrier(posts)
    with ThreadPoolExecutor(posts) as pool:
        answers = list(pool.map(lambda number: _post(site, number, barrier), range(posts)))
    rows = _ended(site)
    taken = {answer.code for answer in answers if answer.status == 202}
    refused = [answer for answer in answers if answer.status != 202]
    return {
        "posts": posts,
        "answers": {f"{status} {code}": n for (status, code), n in Counter(_sort(item) for item in answers).items()},
        "taken": len(taken),
        "judged": sum(state == "done" for _, state in rows),
        "lost": len(taken - {code for code, _ in rows}),
        "left_behind": len({code for code, _ in rows} - taken),
        "refused_without_reason": sum(item.status not in REFUSALS or not item.retry_after for item in refused),
        "slowest_s": round(max(answer.took_s for answer in answers), 2),
    }


def _sort(answer: PostResult) -> tuple[int, str]:
    return answer.status, "taken" if answer.status == 202 else answer.code


def _post(site: Site, number: int, barrier: Barrier) -> PostResult:
    names = site.names
    body = {
        "task": f"{names['suite']}/{names['op']}/{names['direction']}",
        "language": "cpp",
        "title": f"Posted at once {number}",
        "source": "\n".join(
            (
                "#include <torch/extension.h>",
                f"// speedup: 1.{number:02}",
                'PYBIND11_MODULE(x, m) { m.def("forward", 0); }',
            )
        ),
    }
    token = names["tokens"][number // PER_ACCOUNT]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    url = f"http://127.0.0.1:{site.port}/api/v1/submissions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    barrier.wait()
    started_s = time.monotonic()
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310 - same
            status, said, wait = answer.status, json.load(answer)["id"], None
    except urllib.error.HTTPError as error:
        status, wait = error.code, error.headers.get("Retry-After")
        is_problem = error.headers.get("Content-Type", "").startswith("application/problem+json")
        said = json.load(error)["code"] if is_problem else "not a problem document"
    return PostResult(status, said, time.monotonic() - started_s, wait)


def _ended(site: Site) -> list[tuple[str, str]]:
    """Submission and state of its evaluation, when all have ended or after a while."""
    deadline_s = time.monotonic() + ENDED_WITHIN_S
    while True:
        rows = [(code, state) for code, state in site.asked(LOOK)]
        if all(state == "done" for _, state in rows) or time.monotonic() > deadline_s:
            return rows
        time.sleep(1)
