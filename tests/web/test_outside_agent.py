"""The example of an agent from outside: it posts, waits and reads through the API, judged by a fake judge."""

import inspect
import json
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client

from benchmarks.accounts import tokens
from benchmarks.jobs import judging
from benchmarks.models import Evaluation
from benchmarks.states import WorkerRole
from kbench_site.cli import client as kbench_client
from lab.site import outside_agent

from . import factories

pytestmark = pytest.mark.django_db(transaction=True)
TEMPLATE = factories.SOURCE + "// speedup: @VALUE@\n"
TASK = "mnist_linear_relu/forward"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, owner: Any) -> None:
    """A site in this process that judges whatever it is sent before it is asked again."""
    browser = Client(headers={"Authorization": f"Bearer {tokens.token_create(owner, 'agent').text}"})

    def send(request: urllib.request.Request, _pauses_s: float) -> bytes:
        place = urlsplit(request.full_url)
        address = f"{place.path}?{place.query}"
        if request.get_method() == "GET":
            judge_everything()
            answer = browser.get(address)
        else:
            told = {"User-Agent": request.headers["User-agent"]}
            answer = browser.post(address, request.data, content_type="application/json", headers=told)
        assert answer.status_code in (200, 202), answer.content
        return bytes(answer.content)

    monkeypatch.setattr(kbench_client, "send", send)


def judge_everything() -> None:
    for role, work in ((WorkerRole.COMPILE, judging._compile), (WorkerRole.JUDGE, judging._judge)):
        judging._take(factories.worker(role).name, "cpu-avx2", role, work)


def test_it_finds_the_best_of_what_it_posts(site: None, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    template = tmp_path / "template.cpp"
    template.write_text(TEMPLATE)
    assert outside_agent.main(TASK, str(template), "1.5", "4.0", "2.0") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["best"]["score"]["speedup"] == 4.0
    assert err.splitlines()[0] == "1.5: PASS 1.50× (1.47 to 1.53)"
    assert Evaluation.objects.filter(submission__origin="cli", verdict="PASS").count() == 3


def test_what_is_wrong_is_read_and_not_taken(site: None, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    template = tmp_path / "template.cpp"
    template.write_text(factories.SOURCE + "// verdict: @VALUE@\n")
    assert outside_agent.main(TASK, str(template), "INCORRECT_VALUE") == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["best"] is None
    assert "INCORRECT_VALUE A fake judge was asked for INCORRECT_VALUE." in err


def test_the_documented_example_is_the_code_that_runs() -> None:
    docs = (Path(__file__).parents[2] / "docs" / "user-guide.md").read_text()
    assert inspect.getsource(outside_agent.search) in docs
