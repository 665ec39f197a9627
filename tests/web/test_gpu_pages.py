"""Pages with a GPU beside the CPU: the switch, boards apart, starter code, what a report says of device and audit."""

from dataclasses import replace
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from benchmarks.models import Evaluation, Submission, TaskVersion
from benchmarks.states import Switch
from benchmarks.switches import switch_set
from benchmarks.views.parts.machine_facts import record

from . import factories

TASK_URL = reverse("task", args=factories.TASK)
SUBMIT_URL = reverse("submit", args=factories.TASK)
AUDIT = {
    "calls": [
        {
            "config": "batch_size=64",
            "kernels": ["fused_linear_relu"],
            "kernel_count": 1,
            "kernel_sum_us": 31.2,
            "claimed_us": 33.4,
            "dram_bytes": 1 << 20,
            "floor_bytes": 1 << 19,
        }
    ],
    "sanitizer": {"config": "batch_size=64", "errors": 0, "first": ""},
    "agrees": True,
    "problems": [],
}


def html(client: Client, url: str, **query: Any) -> str:
    response = client.get(url, query)
    assert response.status_code == 200
    return response.content.decode()


REPLAY = {
    "bursts": {"batch_size=64": {"calls": 64, "kernel": {"single_us": 2.817, "burst_us": 2.98}}},
    "records": [
        {"config": "batch_size=64", "nodes": [{"kernel": "_Z<b>fused"}, {"kind": "memset"}], "count": 3, "calls": 64},
        {"config": "batch_size=4096", "nodes": [{"kernel": "_Zother"}], "count": 1, "calls": 1},
    ],
}


def board_url(device: str) -> str:
    return reverse("leaderboard", args=[*factories.TASK, device])


def test_without_a_gpu_there_is_nothing_to_switch(visitor: Client) -> None:
    for url in ("/tasks/", TASK_URL, "/leaderboards/", board_url("cpu-avx2")):
        assert 'aria-label="Device kind"' not in html(visitor, url)


def test_boards_are_apart_and_lead_to_each_other(visitor: Client) -> None:
    factories.judged(factories.passing(1.5))
    factories.judged_on_gpu(factories.passing_on_gpu(3.0))
    cpu, gpu = html(visitor, board_url("cpu-avx2")), html(visitor, board_url("nvidia-h200"))
    assert ("1.50×" in cpu, "3.00×" in cpu) == (True, False)
    assert ("1.50×" in gpu, "3.00×" in gpu) == (False, True)
    assert board_url("cpu-avx2") in gpu
    assert board_url("nvidia-h200") in cpu


def test_the_kind_with_the_most_entries_is_shown_first(visitor: Client) -> None:
    factories.gpu_kind()
    assert "on NVIDIA H200" in html(visitor, "/tasks/")
    factories.judged(factories.passing(1.5))
    assert "on CPU" in html(visitor, "/tasks/")


def test_the_task_list_follows_the_switch(visitor: Client) -> None:
    factories.judged(factories.passing(1.5))
    factories.judged_on_gpu(factories.passing_on_gpu(3.0))
    assert "3.00×" in html(visitor, "/tasks/", device="nvidia-h200")
    assert "1.50×" in html(visitor, "/tasks/", device="cpu-avx2")
    assert html(visitor, "/tasks/", device="abacus")


def test_the_list_of_boards_follows_the_switch(visitor: Client) -> None:
    factories.judged_on_gpu(factories.passing_on_gpu(3.0))
    assert "3.00×" in html(visitor, "/leaderboards/", device="nvidia-h200")
    assert "3.00×" not in html(visitor, "/leaderboards/", device="cpu-avx2")


def test_a_task_shows_configurations_entries_and_starters_of_the_device(visitor: Client) -> None:
    factories.judged_on_gpu(factories.passing_on_gpu(3.0))
    page = html(visitor, TASK_URL, device="nvidia-h200")
    assert page.index("Configurations on NVIDIA H200</h2>") < page.index("<summary>Configurations on CPU")
    assert "Best entries on NVIDIA H200" in page
    assert "3.00×" in page


def test_the_page_of_a_bounded_entry_shows_bound_device_and_trust(visitor: Client) -> None:
    page = html(visitor, factories.judged_on_gpu().get_absolute_url())
    for words in ("bounded", "34.8 µs", "1980 MHz", "1965 MHz", "41 °C", "4230.5 GB/s", "copy included"):
        assert words in page
    assert "throttled" in page


def test_a_cpu_evaluation_shows_no_bound_and_no_device(visitor: Client) -> None:
    page = html(visitor, factories.judged().get_absolute_url())
    assert "bound " not in page
    assert 'id="device-title"' not in page


def test_an_audit_is_shown_with_what_it_found(visitor: Client) -> None:
    evaluation = factories.judged_on_gpu(factories.passing_on_gpu(trust="audited"))
    Evaluation.objects.filter(pk=evaluation.pk).update(report={**(evaluation.report or {}), "audit": AUDIT})
    page = html(visitor, evaluation.get_absolute_url())
    for words in ("confirmed", "fused_linear_relu", "31.2 µs", "33.4 µs", "1 MiB", "512 KiB", "no invalid access"):
        assert words in page


def test_boards_carry_the_badge_of_their_times(visitor: Client) -> None:
    factories.judged_on_gpu()
    assert "bounded</span>" in html(visitor, board_url("nvidia-h200"))


@pytest.mark.parametrize("trust", ["bounded", "audited", "replayed"])
def test_a_page_says_what_the_lower_end_of_a_bound_is_for(visitor: Client, trust: str) -> None:
    evaluation = factories.judged_on_gpu(factories.passing_on_gpu(trust=trust))
    told = "the leaderboard ranks the entry by it" in html(visitor, evaluation.get_absolute_url())
    assert told is (trust != "replayed")


def test_the_shares_of_replayed_baselines_are_among_the_facts() -> None:
    facts = record({"gpu": "NVIDIA H200", "baseline_gap": {"batch_size=64": 0.81}}).others
    assert [(fact.title, fact.text) for fact in facts] == [
        (
            "Time of the stronger baseline without gaps between its launches, as a share of its time",
            "batch size=64 0.81",
        )
    ]


def test_an_owner_asks_for_an_audit_once(as_owner: Client, owner: Any) -> None:
    evaluation = factories.judged_on_gpu(owner=owner)
    url = reverse("evaluation-audit", args=[evaluation.code])
    assert "Request an audit" in html(as_owner, evaluation.get_absolute_url())
    as_owner.post(url)
    assert [item.reason for item in evaluation.submission.evaluations.all()] == ["verification", "initial"]
    as_owner.post(url)
    assert evaluation.submission.evaluations.count() == 2


@pytest.mark.parametrize("closed", ["paused", "retired"])
def test_its_owner_gets_no_audit_where_nothing_can_be_submitted(as_owner: Client, owner: Any, closed: str) -> None:
    evaluation = factories.judged_on_gpu(owner=owner)
    if closed == "paused":
        switch_set(Switch.SUBMISSIONS, on=False, message="Back soon.")
    else:
        TaskVersion.objects.update(status="retired")
        assert "Request an audit" not in html(as_owner, evaluation.get_absolute_url())
    as_owner.post(reverse("evaluation-audit", args=[evaluation.code]))
    assert evaluation.submission.evaluations.count() == 1


def test_staff_ask_for_an_audit_that_settles_a_review(as_owner: Client, owner: Any) -> None:
    type(owner).objects.filter(pk=owner.pk).update(is_staff=True)
    evaluation = factories.judged_on_gpu()
    TaskVersion.objects.update(status="retired")  # only staff can ask then
    assert "Request an audit" in html(as_owner, evaluation.get_absolute_url())
    as_owner.post(reverse("evaluation-audit", args=[evaluation.code]))
    assert evaluation.submission.evaluations.first().reason == "audit"  # type: ignore[union-attr]


def test_nobody_else_asks_for_an_audit(as_stranger: Client, visitor: Client, owner: Any) -> None:
    evaluation = factories.judged_on_gpu(owner=owner)
    for client in (as_stranger, visitor):
        assert "Request an audit" not in html(client, evaluation.get_absolute_url())
        client.post(reverse("evaluation-audit", args=[evaluation.code]))
    assert evaluation.submission.evaluations.count() == 1


@pytest.mark.parametrize("audited", [True, False])
def test_what_needs_no_audit_gets_none(as_owner: Client, owner: Any, audited: bool) -> None:
    report = factories.passing_on_gpu(trust="audited")
    evaluation = factories.judged_on_gpu(report, owner=owner) if audited else factories.judged(owner=owner)
    as_owner.post(reverse("evaluation-audit", args=[evaluation.code]))
    assert evaluation.submission.evaluations.count() == 1


CUDA = factories.SOURCE.replace("at::linear", "/* __global__ */ at::linear")


def post(client: Client, **fields: Any) -> Any:
    return client.post(SUBMIT_URL, {"text": CUDA, "language": "cuda", **fields})


def test_a_cuda_source_goes_to_the_gpu(visitor: Client) -> None:
    factories.gpu_kind()
    assert post(visitor).status_code == 302
    assert Evaluation.objects.get().device_kind.slug == "nvidia-h200"


def test_a_cuda_source_without_a_gpu_is_refused_with_the_reason_and_kept(visitor: Client) -> None:
    response = post(visitor)
    assert response.status_code == 422
    assert b"no worker with such a device has ever reported" in response.content
    assert b"at::linear" in response.content
    assert not Submission.objects.exists()


def test_a_device_that_does_not_run_the_language_is_refused(visitor: Client) -> None:
    factories.gpu_kind()
    assert b"cpu-avx2 does not run cuda" in post(visitor, device="cpu-avx2").content


def test_the_suffix_of_a_file_says_its_language(visitor: Client) -> None:
    factories.gpu_kind()
    post(visitor, language="cpp", file=SimpleUploadedFile("kernel.cu", CUDA.encode()))
    assert Submission.objects.get().language == "cuda"


def test_a_kind_without_a_worker_says_so_before_one_submits(visitor: Client) -> None:
    factories.gpu_kind()
    assert "No nvidia-h200 worker has ever been online." in html(visitor, SUBMIT_URL)
    factories.worker(device=factories.GPU)
    factories.worker("compile", factories.GPU)
    assert "nvidia-h200 worker" not in html(visitor, SUBMIT_URL)


def test_the_editor_begins_in_the_language_of_the_link(visitor: Client) -> None:
    page = html(visitor, SUBMIT_URL, language="cuda")
    assert '<option value="cuda" selected>' in page
    assert '<option value="cpp" selected>' in html(visitor, SUBMIT_URL, language="fortran")


def test_a_figure_in_an_unexpected_form_stands_as_it_is() -> None:
    facts = record({"gpu": "H200", "canary_drift": "unknown", "temperature_c": None, "isolation": "x", "cores": 2})
    assert [fact.text for fact in facts.device] == ["H200", "unknown"]
    assert [(fact.title, fact.text) for fact in facts.others] == [("Cores", "2")]


def test_a_cpu_has_no_device_of_its_own() -> None:
    assert record({"cores": 2}).device == []


def test_a_replayed_entry_says_so_with_its_record(visitor: Client) -> None:
    report = factories.passing_on_gpu(3.0, "replayed")
    evaluation = factories.judged_on_gpu(
        replace(report, environment={**report.environment, "replay": REPLAY}), text=factories.SOURCE
    )
    page = html(visitor, evaluation.get_absolute_url())
    assert "replayed</span>" in page
    assert "_Z&lt;b&gt;fused, memset and 1 more; 2.817 µs alone, 2.98 µs in a row of 64" in page
    assert "Recorded call of batch_size=4096" in page


def test_why_nothing_was_replayed_is_told(visitor: Client) -> None:
    report = factories.passing_on_gpu()
    told = {**report.environment, "not_replayed": "node 0 is 'an allocation <i>'"}
    page = html(visitor, factories.judged_on_gpu(replace(report, environment=told)).get_absolute_url())
    assert "node 0 is &#x27;an allocation &lt;i&gt;&#x27;" in page


def test_a_board_shows_replayed_times_first_in_a_tie_and_alone(visitor: Client, owner: Any, stranger: Any) -> None:
    factories.judged_on_gpu(factories.passing_on_gpu(3.0, "audited"), owner=owner)
    second = factories.SOURCE + "// replayed\n"
    factories.judged_on_gpu(factories.passing_on_gpu(3.0, "replayed"), owner=stranger, text=second)
    page = html(visitor, board_url("nvidia-h200"))
    assert page.index("replayed</span>") < page.index("audited</span>")
    alone = html(visitor, board_url("nvidia-h200"), timing="replayed")
    assert ("replayed</span>" in alone, "audited</span>" in alone) == (True, False)
    assert 'name="timing"' not in html(visitor, board_url("cpu-avx2"))


def test_facts_of_a_gpu_have_titles_and_units() -> None:
    facts = {"gpu": "NVIDIA H200", "sm_count": 132, "l2_bytes": 62914560, "flush_us": 88.86399865150452, "nvcc": "13"}
    told = record(facts)
    assert [(fact.title, fact.text) for fact in [*told.device, *told.others]] == [
        ("GPU", "NVIDIA H200"),
        ("Multiprocessors", "132"),
        ("L2 cache", "60 MiB"),
        ("Time to clear the caches before a call", "88.864 µs"),
        ("CUDA compiler", "13"),
    ]


def test_facts_of_a_processor_have_titles_and_units() -> None:
    facts = {"build_seconds": 4.216, "build_cached": True, "null_call_us": 82.2, "load_1min": None, "new_fact": "x"}
    facts["load_s"] = {"files": 0.02, "first_calls": 1.5}
    told = [(fact.title, fact.text) for fact in record(facts).others]
    assert told == [
        ("Build time", "4.216 s"),
        ("Build reused", "yes"),
        ("Time of an empty call", "82.2 µs"),
        ("new fact", "x"),
        ("Loading times in seconds", "files 0.02, first calls 1.5"),
    ]
