"""Checking without a GPU from the submit page and over the API: the button, the page, who may read it."""

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from benchmarks import services
from benchmarks.accounts.exports import files_of
from benchmarks.emulator import EmulatorFinding, EmulatorReport, EmulatorVerdict
from benchmarks.harness import Verdict
from benchmarks.judgings import checks
from benchmarks.models import EmulatorCheck, Evaluation, Payer
from benchmarks.states import Switch
from benchmarks.switches import switch_set

from . import factories
from .test_api import API, NAME, Program, refused

URL = reverse("submit", args=factories.TASK)
CUDA = """#include <torch/extension.h>
__global__ void linear(float* y) { y[threadIdx.x] = 0; }
torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) { return x; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""
KEY = {"Idempotency-Key": "one"}
RACE = EmulatorFinding(
    kind="race",
    text="a thread reads what another one has written",
    kernel="linear",
    launch_line=9,
    line=3,
    block=(0, 0, 0),
    thread=(1, 0, 0),
    place="byte 0 of sums",
    other_line=2,
    other_block=0,
    other_thread=5,
)
WRONG = EmulatorReport(EmulatorVerdict.WRONG, "race: a thread reads", 3, (RACE,), (), ("batch=64",), 3, 2.0, 9.5)
RIGHT = EmulatorReport(EmulatorVerdict.CORRECT_HERE, "1 configurations, 3 runs, all within tolerance", configs=("a",))
ABSTAINED = EmulatorReport(EmulatorVerdict.ABSTAINED, "cub is not modelled", 4)


@pytest.fixture(autouse=True)
def cpu() -> Any:
    return factories.cpu_kind()


def ended(report: EmulatorReport, owner: Any = None) -> EmulatorCheck:
    services.check_create(version=factories.version(), text=CUDA, owner=owner, payer=None)
    holding = checks.check_claim()
    assert holding is not None
    assert holding.record(report)
    return EmulatorCheck.objects.get(pk=holding.row.pk)


def post(client: Client, language: str = "cuda", **fields: Any) -> Any:
    return client.post(URL, {"text": CUDA, "language": language, "emulate": "1", **fields})


def page(client: Client, check: EmulatorCheck, part: str = "") -> str:
    response = client.get(f"{check.get_absolute_url()}{part}")
    assert response.status_code == 200
    return str(response.content.decode())


def test_the_button_starts_a_check_and_no_submission(as_owner: Client, owner: Any) -> None:
    response = post(as_owner)
    check = EmulatorCheck.objects.get()
    assert (response.status_code, response["Location"]) == (302, check.get_absolute_url())
    assert (check.owner, check.text, check.state) == (owner, CUDA, "queued")
    assert not Evaluation.objects.exists()
    assert "It is waiting for a worker" in page(as_owner, check)


def test_without_javascript_the_page_reloads_until_it_has_ended(as_owner: Client, owner: Any) -> None:
    post(as_owner)
    shown = page(as_owner, EmulatorCheck.objects.get())
    assert '<noscript><meta http-equiv="refresh"' in shown
    assert 'hx-trigger="every 2s"' in shown
    done = page(as_owner, ended(RIGHT, owner))
    assert "http-equiv" not in done
    assert "every 2s" not in done


def test_the_live_part_is_sent_once_per_state(as_owner: Client) -> None:
    post(as_owner)
    address = f"{EmulatorCheck.objects.get().get_absolute_url()}live/"
    assert as_owner.get(f"{address}?state=queued").status_code == 204
    assert checks.check_claim() is not None
    assert "compiled and run" in as_owner.get(f"{address}?state=queued").content.decode()


def test_another_language_is_refused_with_the_text_kept(visitor: Client) -> None:
    response = post(visitor, "cpp", text=factories.SOURCE)
    assert response.status_code == 422
    assert b"Only CUDA C++ can be checked without a GPU" in response.content
    assert b"relu_()" in response.content
    assert not EmulatorCheck.objects.exists()


def test_a_source_that_breaks_the_rules_is_refused_as_a_submission_is(visitor: Client) -> None:
    assert post(visitor, text="int main() {}").status_code == 422
    assert not EmulatorCheck.objects.exists()


def test_a_full_quota_is_said_with_a_time(as_owner: Client, settings: Any) -> None:
    settings.KBENCH_IN_FLIGHT_MAX = 1
    post(as_owner)
    response = post(as_owner, client_token="another")
    assert response.status_code == 429
    assert response["Retry-After"]


def test_a_public_site_demands_an_account(visitor: Client, settings: Any) -> None:
    settings.KBENCH_PUBLIC = True
    assert b"Log in to submit" in post(visitor).content
    assert not EmulatorCheck.objects.exists()


def test_a_finding_is_shown_with_both_accesses_and_links_to_its_line(as_owner: Client, owner: Any) -> None:
    shown = page(as_owner, ended(WRONG, owner))
    for words in (
        "Wrong",
        "<h3>race</h3>",
        "byte 0 of sums",
        'href="#L3"',
        'id="L3"',
        "thread (1, 0, 0) of block (0, 0, 0) in line 3",
    ):
        assert words in shown, words
    assert "before it: thread 5 of block 0 in line 2" in shown
    assert "kernel linear, launched in line 9" in shown
    assert "9.5 s" in shown


def test_the_page_says_that_it_is_no_judging(visitor: Client) -> None:
    shown = page(visitor, ended(RIGHT))
    assert "Correct here" in shown
    assert "Nothing is timed or ranked" in shown
    assert "no leaderboard shows the kernel as verified" in shown


def test_an_abstention_names_its_line(visitor: Client) -> None:
    shown = page(visitor, ended(ABSTAINED))
    assert "cub is not modelled" in shown
    assert '<a href="#L4">line 4</a>' in shown


def test_our_own_fault_is_told_apart(visitor: Client) -> None:
    services.check_create(version=factories.version(), text=CUDA, owner=None, payer=None)
    holding = checks.check_claim()
    assert holding is not None
    holding.fail("no compiler")
    shown = page(visitor, EmulatorCheck.objects.get())
    assert "no compiler" in shown
    assert "This is our fault" in shown


def test_only_its_owner_reads_it(visitor: Client, as_stranger: Client, as_staff: Client, owner: Any) -> None:
    check = ended(WRONG, owner)
    for client in (visitor, as_stranger, as_staff):
        for part in ("", "live/"):
            assert client.get(f"{check.get_absolute_url()}{part}").status_code == 404


def test_an_explanation_is_read_by_whoever_reads_the_evaluation(
    as_owner: Client, as_stranger: Client, owner: Any, visitor: Client
) -> None:
    reason = "CUDA error: an illegal memory access was encountered"
    failing = factories.report(Verdict.RUNTIME_ERROR, reason)
    payer = Payer.objects.create(account=owner)
    options = {"owner": owner, "payer": payer, "visibility": "private", "language": "cuda"}
    evaluation = factories.judged_on_gpu(failing, text=CUDA, **options)
    check = EmulatorCheck.objects.get(explains=evaluation)
    shown = as_owner.get(evaluation.get_absolute_url()).content.decode()
    assert "A check without a GPU is searching for it" in shown
    holding = checks.check_claim()
    assert holding is not None
    holding.record(WRONG)
    assert "Run without a GPU: race: a thread reads" in as_owner.get(evaluation.get_absolute_url()).content.decode()
    assert evaluation.get_absolute_url() in page(as_owner, check)
    for client in (as_stranger, visitor):
        assert client.get(check.get_absolute_url()).status_code == 404


def test_hostile_texts_stay_text(visitor: Client) -> None:
    evil = "<img src=x onerror=alert(1)>\x1b[2J{{ 7 }}"
    finding = EmulatorFinding(evil, evil, evil, evil, 1, 1, (0, 0, 0), (0, 0, 0), evil, 1, 0, 0)
    report = EmulatorReport(EmulatorVerdict.WRONG, evil, 1, (finding,) * 500, (evil,), (evil,))
    check = ended(report)
    shown = page(visitor, check)
    assert "<img src=x" not in shown
    assert "\x1b" not in shown
    assert shown.count('<li class="panel stack"><h3>') == checks.FINDINGS_MAX


def test_the_archive_of_an_account_holds_its_checks(owner: Any, stranger: Any) -> None:
    check = ended(WRONG, owner)
    kept = dict(files_of(owner))
    assert json.loads(kept[f"checks/{check.code}/check.json"])["report"]["verdict"] == "WRONG"
    assert kept[f"checks/{check.code}/kernel.cu"].decode() == CUDA
    assert not any(name.startswith("checks/") for name in dict(files_of(stranger)))


def test_a_program_starts_and_reads_a_check(owner: Any) -> None:
    program = Program(owner)
    made = program.post("/checks", {"task": NAME, "source": CUDA})
    found = made.json()
    assert (made.status_code, found["state"], found["verdict"]) == (202, "queued", None)
    holding = checks.check_claim()
    assert holding is not None
    holding.record(WRONG)
    found = program.get(made["Location"].removeprefix(API)).json()
    assert (found["state"], found["verdict"]) == ("done", "WRONG")
    assert found["report"] == {**WRONG.to_json(), **found["report"]}
    assert (found["report"]["findings"][0]["thread"], found["report"]["seconds"]) == ([1, 0, 0], 9.5)


def test_a_program_is_refused_as_a_person_is(owner: Any, stranger: Any) -> None:
    program = Program(owner)
    wanted = {"task": NAME, "source": CUDA}
    refused(Program(owner, scope="read").post("/checks", wanted), 403, "scope-missing")
    refused(program.post("/checks", {**wanted, "task": "no/such"}), 404, "unknown-task")
    refused(program.post("/checks", {**wanted, "source": "int x;"}), 422, "source-refused")
    code = program.post("/checks", wanted, **KEY).json()["id"]
    assert program.post("/checks", wanted, **KEY).json()["id"] == code
    refused(program.post("/checks", {**wanted, "source": CUDA + "//"}, **KEY), 409, "idempotency-key-reused")
    refused(Program(stranger).get(f"/checks/{code}"), 404, "not-found")
    switch_set(Switch.SUBMISSIONS, on=False, message="Later.")
    refused(program.post("/checks", wanted), 503, "submissions-closed")
