"""The client against a server that answers what the test wants: tries, pauses, time-outs, interruption, JSON, bars."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from click.testing import CliRunner
from rich.console import Console

from kbench_site.cli import following, main, transport
from kbench_site.cli.client import ApiError, Client

CODE = "00000000-0000-0000-0000-000000000001"
QUEUE = {"position": 3, "ahead": 2, "running": 1, "reason": "2 ahead of you.", "no_estimate": None}


def evaluation(**fields):
    found = dict.fromkeys(("queue", "stage", "stage_text", "stage_done", "stage_total", "verdict", "score", "report"))
    known = {"id": CODE, "state": "queued", "finished": None, "reason": "", "url": f"/evaluations/{CODE}/"}
    return {**found, **known, **fields}


WAITS = evaluation(queue={**QUEUE, "wait_s_low": 130.0, "wait_s_high": 230.0})
RUNS = evaluation(state="timing", stage="time", stage_text="batch=64", stage_done=2, stage_total=5)
DONE = evaluation(state="done", finished="2026-11-21T18:00:00Z", verdict="PASS", reason="Correct and timed.")


class Site:
    """A server on a free port. `answers` are (status, body, headers), taken one by one; the last one stays."""

    def __init__(self):
        self.answers, self.asked = [], []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                length = int(self.headers.get("Content-Length", 0))
                site.asked.append((self.command, self.path, dict(self.headers), self.rfile.read(length)))
                status, body, headers = site.answers.pop(0) if len(site.answers) > 1 else site.answers[0]
                if status is None:
                    self.connection.close()
                    return
                content = json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"Content-Length": len(content), **headers}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = answer

            def log_message(self, *_):
                """Tests want no lines."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def says(self, *answers):
        self.answers = [(*answer, {})[:3] for answer in answers]


@pytest.fixture
def site():
    made = Site()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


@pytest.fixture
def pauses(monkeypatch):
    taken = []
    monkeypatch.setattr(transport.time, "sleep", taken.append)
    return taken


@pytest.fixture
def kbench(site):
    def run(*arguments, **environment):
        known = {"KBENCH_URL": site.url, "KBENCH_TOKEN": "kb_x", **environment}
        return CliRunner().invoke(main, arguments, env=known)

    return run


LOST = (None, None)
PROBLEM = {"detail": "Wait a little.", "code": "too-many-submissions"}


def test_a_lost_connection_is_tried_again_with_growing_pauses(site, kbench, pauses):
    site.says(LOST, LOST, LOST, (200, []))
    assert kbench("tasks", "--json").stdout == "[]\n"
    assert len(site.asked) == 4
    assert all(0.25 * 2**n <= pause <= 0.5 * 2**n for n, pause in enumerate(pauses))


def test_after_the_last_try_it_is_our_own_fault(site, kbench, pauses):
    site.says(LOST)
    result = kbench("tasks")
    assert (result.exit_code, len(site.asked)) == (3, transport.TRIES_MAX)
    assert "does not answer" in result.stderr


@pytest.mark.parametrize("status", [429, 503])
def test_the_site_says_when_to_come_back(site, kbench, pauses, status):
    site.says((status, PROBLEM, {"Retry-After": "7"}), (200, []))
    result = kbench("tasks", "--json")
    assert (result.exit_code, pauses) == (0, [7.0])
    assert "Trying again in 7 s." in result.stderr


@pytest.mark.parametrize(("status", "exit_code"), [(429, 2), (503, 3)])
def test_it_does_not_wait_for_long(site, kbench, pauses, status, exit_code):
    site.says((status, PROBLEM, {"Retry-After": "3600"}))
    result = kbench("tasks")
    assert (result.exit_code, pauses, len(site.asked)) == (exit_code, [], 1)
    assert "Wait a little." in result.stderr


def test_a_client_that_may_not_pause_has_one_try(site, pauses):
    site.says((503, PROBLEM, {"Retry-After": "1"}))
    client = Client(site.url, "secret")
    client.pauses_s = 0.0
    with pytest.raises(ApiError, match="Wait a little"):
        client.get("tasks")
    assert (pauses, len(site.asked)) == ([], 1)


def test_what_is_refused_is_not_tried_again(site, kbench, pauses):
    site.says((409, {"detail": "Judged before.", "code": "identical-source"}))
    result = kbench("cancel", CODE)
    assert (result.exit_code, result.stderr, len(site.asked)) == (2, "kbench: Judged before.\n", 1)


def test_all_tries_of_a_submission_have_one_key(site, kbench, pauses, tmp_path):
    kernel = tmp_path / "kernel.cpp"
    kernel.write_text("// kernel\n")
    site.says(LOST, (503, PROBLEM), (202, {"id": "s", "evaluations": [evaluation()]}))
    assert kbench("submit", "a/forward", str(kernel)).stdout == f"{CODE}\n"
    assert len({headers["Idempotency-Key"] for _, _, headers, _ in site.asked}) == 1
    assert json.loads(site.asked[-1][3])["source"] == "// kernel\n"


def test_an_answer_of_something_else_is_told(site, kbench):
    site.server.RequestHandlerClass.protocol_version = "HTTP/1.0"
    site.says((404, "<html>"))
    result = kbench("status")
    assert (result.exit_code, "404" in result.stderr) == (2, True)


def test_a_time_out_is_set_by_the_environment(site, kbench, pauses):
    site.says((200, []))
    assert kbench("tasks", KBENCH_TIMEOUT_S="soon").exit_code == 2
    assert kbench("tasks", KBENCH_TIMEOUT_S="5").exit_code == 0


def test_watching_tells_place_stage_and_verdict(site, kbench):
    site.says((200, WAITS), (200, RUNS), (200, RUNS), (200, DONE))
    result = kbench("watch", CODE, "--json")
    assert json.loads(result.stdout.splitlines()[-1])["verdict"] == "PASS"
    assert result.stderr.splitlines() == [
        "queued: 2 ahead of you. Number 3, begins in 2 to 4 min.",
        "time: batch=64 (2 of 5)",
    ]


def test_on_a_terminal_a_bar_moves_and_standard_output_stays_clean(site, kbench, monkeypatch):
    monkeypatch.setattr(following, "progress", Console(stderr=True, force_terminal=True, width=80))
    site.says((200, RUNS), (200, DONE))
    result = kbench("watch", CODE)
    assert "time: batch=64" in result.stderr
    assert "\x1b[" in result.stderr
    assert result.stdout.startswith("PASS  Correct and timed.")


def test_interrupted_it_says_how_to_watch_on(site, kbench, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    site.says((200, RUNS))
    monkeypatch.setattr(following, "_tell", interrupt)
    result = kbench("watch", CODE)
    assert result.exit_code == 130
    assert f"Judging continues; follow it with: kbench watch {CODE}" in result.stderr
    assert all(command == "GET" for command, *_ in site.asked)


def test_waiting_ends_at_its_limit_and_says_how_to_watch_on(site, kbench):
    site.says((200, RUNS))
    result = kbench("watch", CODE, "--timeout", "0.05")
    assert result.exit_code == 3
    assert "not ended within 0.05 s" in result.stderr
    assert f"kbench watch {CODE}" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        (("tasks",), []),
        (("runs",), {"page": 1, "pages": 1, "runs": []}),
        (("status",), {"queues": [], "notices": []}),
        (("quota",), {"meters": []}),
        (("methods",), []),
        (("whoami",), {"account": "nina", "token": {"name": "t", "scope": "read", "expires": None}}),
        (("compare", "human"), {"methods": [], "suite": "s", "device": "cpu", "tasks": 1, "common": []}),
        (
            ("leaderboard", "a/b"),
            {"entries": [], "task": "a/b", "device": "cpu", "ruleset": "r", "page": 1, "pages": 1},
        ),
        (("cancel", CODE), evaluation(state="cancelled", reason="Cancelled.")),
    ],
)
def test_every_command_gives_its_document_on_the_last_line(site, kbench, arguments, body):
    site.says((200, body))
    assert json.loads(kbench(*arguments, "--json").stdout.splitlines()[-1]) == body
    assert kbench(*arguments).exit_code == 0


def test_names_with_brackets_stay_as_they_are(site, kbench):
    site.says((200, [{"path": "robust-kbench/a/forward", "formula": "x[bold]y", "entries": 0, "best": None}]))
    assert "x[bold]y" in kbench("tasks").stdout


def test_a_report_that_is_not_there_yet_is_told(site, kbench):
    site.says((200, RUNS))
    result = kbench("download", CODE, "report")
    assert (result.exit_code, "no report yet" in result.stderr) == (2, True)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_site_is_refused_and_the_token_stays(site, status):
    other = Site()
    other.says((200, []))
    thread = threading.Thread(target=other.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        site.says((status, {}, {"Location": f"{other.url}/api/v1/tasks"}))
        with pytest.raises(ApiError, match="redirects to http://") as error:
            Client(site.url, "secret").get("tasks")
    finally:
        other.server.shutdown()
        other.server.server_close()
        thread.join()
    assert error.value.exit_code == 2
    assert other.asked == []


def test_a_redirect_within_the_site_is_followed(site):
    site.says((302, {}, {"Location": "/api/v1/suites"}), (200, []))
    assert Client(site.url, "secret").get("tasks") == []
    assert [path for _, path, _, _ in site.asked] == ["/api/v1/tasks", "/api/v1/suites"]
