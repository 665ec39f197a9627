"""Restarts of web processes and workers while people use the site: no request and no evaluation is lost."""

import threading
from collections import Counter
from concurrent.futures import Future

import pytest

from .installed import SERVICES, WEB, InstalledSite

pytestmark = pytest.mark.deployment
ASKING, POSTS = 4, 15  # fewer than an account may have in flight


def restart_web(site: InstalledSite) -> None:
    for unit in WEB:
        site.machine.run("systemctl", "restart", unit)


def ask_pages(site: InstalledSite, over: threading.Event) -> Counter[int]:
    """Keeps its connection to nginx, as browsers do."""
    answers: Counter[int] = Counter()
    with site.client() as client:
        while not over.is_set():
            for path in ("/", "/tasks/", "/api/v1/status"):
                answers[client.get(path).status_code] += 1
    return answers


def post(site: InstalledSite, over: threading.Event) -> list[str]:
    codes = []
    with site.client() as client:
        for number in range(POSTS):
            answer = client.post("/api/v1/submissions", **site.submission(f"// post {number}"))
            assert answer.status_code == 202, answer.text
            codes.append(answer.headers["Location"].rpartition("/")[2])
            if over.wait(0.5):
                break
    return codes


def wait_for(site: InstalledSite, code: str) -> list[int]:
    """Long requests, each answered whatever happens to its process."""
    answers = []
    with site.client() as client:
        while True:
            answer = client.get(f"/api/v1/evaluations/{code}?wait=30")
            answers.append(answer.status_code)
            if answer.status_code != 200 or answer.json()["state"] == "done":
                return answers


def follow(site: InstalledSite, code: str) -> list[int]:
    """The numbers of all events, read by a client that comes back as a browser does."""
    numbers: list[int] = []
    with site.client() as client:
        while True:
            headers = {"Last-Event-ID": str(numbers[-1] if numbers else 0)}
            with client.stream("GET", f"/events/?topics=evaluation:{code}", headers=headers) as stream:
                assert stream.status_code == 200
                for line in stream.iter_lines():
                    name, _, text = line.partition(": ")
                    if name == "id":
                        numbers.append(int(text))
                    if line == "event: end":
                        return numbers


def test_restarting_the_web_processes_one_by_one_loses_no_request(site: InstalledSite) -> None:
    over = threading.Event()
    long = site.submit("// seconds: 20")
    with site.machine.threads(ASKING + 3) as threads:
        try:
            pages = [threads.submit(ask_pages, site, over) for _ in range(ASKING)]
            posted: Future[list[str]] = threads.submit(post, site, over)
            waited, followed = threads.submit(wait_for, site, long), threads.submit(follow, site, long)
            restart_web(site)
        finally:
            over.set()
        statuses = sum((page.result() for page in pages), Counter())
        assert set(statuses) == {200}
        assert sum(statuses.values()) > 20
        assert set(waited.result()) == {200}
        events = site.sql(f"select id from benchmarks_event where topic = 'evaluation:{long}' order by id").split()  # noqa: S608
        assert followed.result() == [int(number) for number in events]
        codes = posted.result()
    found = site.sql("select count(*) from benchmarks_submission where title like '// post %'")
    assert int(found) == len(codes) == len(set(codes)) > 5
    for unit in WEB:
        assert "Cancel" not in site.machine.journal(unit)  # uvicorn's word for an answer that took too long


def test_a_request_waits_while_all_web_processes_restart(site: InstalledSite) -> None:
    with site.machine.threads(1) as threads:
        over = threading.Event()
        answers = threads.submit(ask_pages, site, over)
        site.machine.run("systemctl", "restart", *WEB)
        over.set()
        assert set(answers.result()) == {200}


def test_restarting_the_workers_loses_no_evaluation(site: InstalledSite) -> None:
    codes = [site.submit("// seconds: 0.5") for _ in range(8)]
    site.wait(lambda: site.evaluation(codes[1])["state"] == "done", 200, "nothing was judged")
    for _ in range(2):
        site.machine.run("systemctl", "restart", "kbench-worker")
    ended = [site.ended(code) for code in codes]
    assert [found["verdict"] for found in ended] == ["PASS"] * len(codes)
    query = "select count(*) from benchmarks_stageresult s join benchmarks_evaluation e on e.id = s.evaluation_id where"
    for code in codes:
        assert site.sql(f"{query} e.code = '{code}'") == "3", "its report was written once"


def test_the_services_come_back_after_they_were_killed(site: InstalledSite) -> None:
    killed = SERVICES[1:]
    restarts = ("systemctl", "show", "--value", "--property=NRestarts", *killed)
    assert set(site.machine.run(*restarts).split()) == {"0"}, "none has died until now"
    site.machine.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", *killed)
    site.wait(lambda: set(site.machine.run(*restarts).split()) == {"1"}, 200, "not all were started again")
    site.wait(lambda: site.ask("/").status_code == 200, 200, "no page came back")
    assert site.ended(site.submit("// after the kill"))["verdict"] == "PASS"
