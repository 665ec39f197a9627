"""With KBENCH_LOG_FORMAT=json what a running site logs is one object a line: web server and workers alike."""

import json
import urllib.request

import pytest

pytestmark = pytest.mark.sandbox
LOGS = ("web", "judge.cpu", "compile", "maint", "agents")


def lines(stack, name):
    """What was logged; Celery prints a banner and its last words beside that."""
    text = (stack.folder / "log" / f"{name}.log").read_text()
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_every_line_is_an_object_that_says_what_it_is_about(stack):
    [code] = stack.submit("// speedup: 2.0\n")
    stack.wait_until_ended(code)
    request = urllib.request.Request(
        f"http://127.0.0.1:{stack.port}/api/v1/status", headers={"X-Request-ID": "from-a-proxy-1"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - our own http address
        assert answer.headers["X-Request-ID"] == "from-a-proxy-1"
    told = {name: lines(stack, name) for name in LOGS}
    assert all({"at", "level", "logger", "message"} <= line.keys() for found in told.values() for line in found)
    [asked] = [line for line in told["web"] if line.get("request_id") == "from-a-proxy-1"]
    assert (asked["path"], asked["status"]) == ("/api/v1/status", 200)
    for name, role in (("judge.cpu", "judge"), ("compile", "compile")):
        about = [line["message"] for line in told[name] if line.get("evaluation", "").replace("-", "") == code]
        assert about[0] == f"{role} begins, attempt 1"
        assert about[-1].startswith(f"{role} ends after")


def test_a_running_site_is_ready_and_has_metrics(stack):
    stack.wait(lambda: json.loads(stack.fetch("/readyz")[1])["status"] == "ok", 60, "it was never quite ready")
    assert 'kbench_workers{device="cpu-avx2",role="judge",state="online"} 1.0' in stack.fetch("/metrics")[1]
    assert "Everything works" in stack.fetch("/status/")[1]
