"""The pages of runs: complete without scripts, readable by everybody, steered by who may."""

import json
import re
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.core.cache import caches
from django.test import Client

from agents import forms, services
from agents.evolve.budget import Caps
from agents.evolve.verifiers.matrix import emulator_on_cuda
from agents.models import Run
from agents.states import RunStatus, Wish
from agents.views import comparisons
from benchmarks.catalogue.folders import shown_spec
from benchmarks.harness import shipped_kernel
from benchmarks.models import Notification, Submission
from benchmarks.moderation import decisions
from benchmarks.states import Moderation, Switch
from benchmarks.switches import switch_set
from benchmarks.templatetags.numbers import times
from tests.web import factories as judgings

from . import factories

NEW = "/runs/new/?task=robust-kbench/mnist_linear_relu/forward"
FORM = {"proposer": "template-evo", "device": "cpu-avx2", "judgings": "5", "seed": "7"}


@pytest.fixture
def run() -> Run:
    return factories.driven()


def addresses(run: Run) -> list[str]:
    base = run.get_absolute_url()
    key = run.best_key
    return [
        *("/runs/", "/runs/new/", NEW, "/runs/ablations/", "/runs/verifiers/", f"/runs/verifiers/?run={run.code}"),
        *(f"/runs/compare/?a={run.code}&b={run.code}", base, f"{base}?at=20", f"{base}?x=minutes", f"{base}live/"),
        *(f"{base}candidates/", f"{base}candidates/?show=failed", f"{base}candidates/{key}/", f"{base}log/"),
        *(f"{base}log/?type=verdict", f"{base}log/?seq=3"),
    ]


def test_every_page_of_a_run_obeys_the_rules_of_the_site(visitor: Client, run: Run) -> None:
    for url in addresses(run):
        response = visitor.get(url)
        html = response.content.decode()
        assert response.status_code == 200, url
        assert not re.search(r"<script(?![^>]*\bsrc=)|\sstyle=|<style|\son\w+=", html), url
        assert all("scope=" in header for header in re.findall(r"<th\b[^>]*>", html)), url
        for control in re.findall(r"<(?:input|select|textarea)\b[^>]*>", html):
            name = re.search(r'\bid="([^"]+)"', control)
            assert 'type="hidden"' in control or (name and f'for="{name[1]}"' in html), (url, control)


def test_a_site_without_runs_shows_every_list(visitor: Client) -> None:
    for url in ("/runs/", "/runs/ablations/", "/runs/compare/", "/runs/verifiers/"):
        assert visitor.get(url).status_code == 200


def test_every_best_speedup_in_a_list_has_its_baseline_and_interval(visitor: Client, run: Run) -> None:
    best = run.candidates.get(key=run.best_key)
    interval = f"{times(best.score_lo)} to {times(best.score_hi)}"
    for url in ("/runs/", f"/runs/compare/?a={run.code}&b={run.code}", f"{run.get_absolute_url()}candidates/"):
        page = " ".join(visitor.get(url).content.decode().replace("<br>", " ").split())
        assert interval in page, url
        assert "the stronger baseline" in page, url


def test_of_many_runs_the_newest_have_lines_of_their_own(visitor: Client, run: Run, monkeypatch: Any) -> None:
    monkeypatch.setattr(comparisons, "RUNS_SHOWN", 1)
    newer = factories.driven()
    page = visitor.get("/runs/verifiers/").content.decode()
    assert "By run, the newest 1 of 2" in page
    assert (str(newer.code)[:8] in page, str(run.code)[:8] in page) == (True, False)


def test_a_form_starts_a_run_that_its_browser_may_steer(visitor: Client) -> None:
    response = visitor.post(NEW, FORM)
    run = Run.objects.get()
    assert response.headers["Location"] == run.get_absolute_url()
    assert (run.state, run.seed, run.caps, run.method.slug) == ("waiting", 7, {"judgings": 5}, "agent-template-evo")
    assert "Pause" in visitor.get(run.get_absolute_url()).content.decode()
    assert "Pause" not in Client().get(run.get_absolute_url()).content.decode()


def test_the_constants_of_the_example_kernel_can_be_tuned(visitor: Client) -> None:
    page = visitor.get(NEW).content.decode()
    assert "Constants, tuned" in page
    visitor.post(NEW, {**FORM, "proposer": "constants"})
    run = Run.objects.get()
    task = shown_spec(run.task_version)
    assert run.config["options"] == {"kernel": shipped_kernel(task, "cpp")}
    assert "the numbers that a kernel names" in visitor.get(run.get_absolute_url()).content.decode()


def test_a_task_without_an_example_kernel_has_no_constants_to_tune(visitor: Client, monkeypatch: Any) -> None:
    monkeypatch.setattr(forms, "shipped_kernel", lambda _task, _language: None)
    response = visitor.post(NEW, {**FORM, "proposer": "constants"})
    assert response.status_code == 422
    assert "There is no example kernel with named constants for " in response.content.decode()


def test_on_a_processor_a_run_has_as_many_judged_at_once_as_judges_are_there(visitor: Client) -> None:
    def at_once() -> tuple[int, int]:
        visitor.post(NEW, FORM)
        config = Run.objects.latest("pk").config
        return config["judgings_at_once"], config["concurrency"]

    assert at_once() == (1, 2)
    first = judgings.worker()
    first.pk, first.name = None, "another"
    first.save(force_insert=True)
    assert at_once() == (2, 3)


def test_a_run_that_screens_on_a_gpu_looks_at_many_and_judges_the_best(visitor: Client) -> None:
    judgings.worker(device=judgings.GPU)
    on_gpu = {**FORM, "device": judgings.gpu_kind().slug, "language": "cuda", "proposer": "constants"}
    found = []
    for verifiers in (["static", "compile", "screen"], ["static", "compile"]):
        visitor.post(NEW, {**on_gpu, "verifiers": verifiers})
        config = Run.objects.latest("pk").config
        found.append((config["generation_size"], config["concurrency"], config["options"].get("finalists")))
    assert found == [(48, 12, 3), (4, 4, None)]
    for minutes, size in ((20, 48), (5, 20), (2, 4)):
        Run.objects.all().delete()
        visitor.post(NEW, {**on_gpu, "verifiers": ["static", "compile", "screen"], "minutes": minutes})
        assert Run.objects.latest("pk").config["generation_size"] == size
    visitor.post(NEW, {**FORM, "verifiers": ["static", "compile", "screen"]})
    assert Run.objects.latest("pk").config["generation_size"] == 4, (
        "on a processor a look takes half as long as a judging"
    )


def test_a_fork_with_little_time_has_fewer_candidates_in_a_generation(run: Run) -> None:
    def forked(**more: float) -> int:
        return services.run_fork(run, owner=None, seed=4, more=Caps(**more)).config["generation_size"]

    run.config |= {"generation_size": 48, "options": {"finalists": 3}}
    run.save(update_fields=["config"])
    assert [forked(judgings=40), forked(wall_s=600.0), forked(wall_s=120.0)] == [48, 40, 4]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"judgings": ""}, "Give the run a limit"),
        ({"judgings": "0"}, "greater than or equal to 1"),
        ({"proposer": "anthropic"}, "Select a valid choice"),
        ({"device": "tpu"}, "Select a valid choice"),
    ],
)
def test_a_form_that_makes_no_sense_says_why(visitor: Client, change: dict[str, str], words: str) -> None:
    response = visitor.post(NEW, {**FORM, **change})
    assert response.status_code == 422
    assert words in response.content.decode()
    assert not Run.objects.exists()


def test_language_models_are_shown_with_the_reason_why_they_are_off(visitor: Client) -> None:
    html = visitor.get(NEW).content.decode()
    assert "ANTHROPIC_API_KEY" in html
    assert re.search(r'value="anthropic"[^>]*disabled', html)


def test_on_a_public_site_a_visitor_logs_in_first(visitor: Client, settings: Any) -> None:
    settings.KBENCH_PUBLIC = True
    assert "Log in to start a run" in visitor.post(NEW, FORM).content.decode()
    assert not Run.objects.exists()


def test_while_runs_are_paused_none_is_started(visitor: Client) -> None:
    switch_set(Switch.RUNS, on=False, message="The machine moves.")
    assert "The machine moves." in visitor.post(NEW, FORM).content.decode()
    assert not Run.objects.exists()


def test_an_owner_has_a_few_unfinished_runs_at_most(as_owner: Client) -> None:
    for _ in range(django_settings.KBENCH_RUNS_PER_OWNER_MAX):
        assert as_owner.post(NEW, FORM).status_code == 302
    assert "which is the limit" in as_owner.post(NEW, FORM).content.decode()


def test_only_who_started_a_run_may_steer_it(as_owner: Client, as_stranger: Client) -> None:
    as_owner.post(NEW, FORM)
    run = Run.objects.get()
    as_stranger.post(f"{run.get_absolute_url()}stop/")
    run.refresh_from_db()
    assert run.wish == Wish.GO
    as_owner.post(f"{run.get_absolute_url()}stop/")
    run.refresh_from_db()
    assert (run.state, run.reason) == (RunStatus.FINISHED, "stopped")


def test_a_waiting_run_is_paused_and_resumed(visitor: Client) -> None:
    visitor.post(NEW, FORM)
    run = Run.objects.get()
    visitor.post(f"{run.get_absolute_url()}pause/")
    run.refresh_from_db()
    assert run.state == RunStatus.PAUSED
    visitor.post(f"{run.get_absolute_url()}resume/")
    run.refresh_from_db()
    assert (run.state, run.wish) == (RunStatus.WAITING, Wish.GO)


def test_the_page_shows_the_past_as_it_was(visitor: Client, run: Run) -> None:
    then = visitor.get(f"{run.get_absolute_url()}?at=10").content.decode()
    assert "shows the run at event 10" in then
    assert "No correct kernel yet" in then
    assert f"{run.best_score:.2f}×" in visitor.get(run.get_absolute_url()).content.decode()


def test_the_log_comes_as_json_lines(visitor: Client, run: Run) -> None:
    lines = visitor.get(f"{run.get_absolute_url()}log.jsonl").content.decode().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, run.last_seq + 1))


def test_a_fork_begins_with_what_its_parent_found(visitor: Client, run: Run) -> None:
    visitor.post(f"{run.get_absolute_url()}fork/", {"judgings": "6", "seed": "3"})
    fork = Run.objects.exclude(pk=run.pk).get()
    assert (fork.forked_from, fork.best_score, fork.judged_count) == (run, run.best_score, run.judged_count)
    assert (fork.caps, fork.spent, fork.seed, fork.state) == ({"judgings": 6}, {}, 3, RunStatus.WAITING)


def test_a_hostile_candidate_is_only_text(visitor: Client, run: Run) -> None:
    row = run.candidates.get(key=run.best_key)
    row.name, row.thought = "<script>alert(1)</script>", "<img src=x onerror=alert(1)>"
    row.save()
    html = visitor.get(f"{run.get_absolute_url()}candidates/{row.key}/").content.decode()
    assert "<script>alert" not in html
    assert "<img src=x" not in html


def test_the_source_of_a_hidden_candidate_is_not_shown(visitor: Client, run: Run) -> None:
    path = f"{run.get_absolute_url()}candidates/{run.best_key}/"
    judged = judgings.queued()
    run.candidates.filter(key=run.best_key).update(ticket=judged.code)
    assert 'id="source"' in visitor.get(path).content.decode()
    Submission.objects.filter(pk=judged.submission_id).update(moderation=Moderation.HIDDEN)
    page = visitor.get(path).content.decode()
    assert 'id="source"' not in page
    assert "or staff have hidden it" in page


def test_what_a_hidden_candidate_says_of_itself_is_nowhere_to_be_read(visitor: Client, run: Run) -> None:
    judged, said = factories.remarked(run, "a remark that staff hide")
    base, key = run.get_absolute_url(), run.best_key
    paths = (
        *(f"{base}log/?seq={said}", f"{base}log.jsonl", f"/api/v1/runs/{run.code}/events?after={said - 1}"),
        *(base, f"{base}live/", f"{base}?at={said}", f"{base}?at={run.last_seq - 1}"),
        *(f"{base}candidates/", f"{base}candidates/{key}/"),
    )
    assert [path for path in paths if "a remark" not in visitor.get(path).content.decode()] == []
    caches["pages"].clear()
    Submission.objects.filter(pk=judged.submission_id).update(moderation=Moderation.HIDDEN)
    for path in paths:
        page = visitor.get(path).content.decode()
        assert key in page, path
        assert "a remark" not in page, path


def test_the_words_of_a_private_candidate_are_for_its_owner(visitor: Client, run: Run) -> None:
    olga = judgings.user("olga")
    _, said = factories.remarked(run, "a private remark", owner=olga, visibility="private")
    base = run.get_absolute_url()
    paths = (f"{base}log/?seq={said}", f"{base}candidates/", f"{base}candidates/{run.best_key}/")
    assert [path for path in paths if "a private remark" in visitor.get(path).content.decode()] == []
    visitor.force_login(olga)
    assert [path for path in paths if "a private remark" not in visitor.get(path).content.decode()] == []


def test_the_source_of_a_candidate_that_its_owner_made_private_is_not_shown(visitor: Client, run: Run) -> None:
    path = f"{run.get_absolute_url()}candidates/{run.best_key}/"
    olga = judgings.user("olga")
    judged = judgings.queued(owner=olga, visibility="private")
    run.candidates.filter(key=run.best_key).update(ticket=judged.code)
    assert 'id="source"' not in visitor.get(path).content.decode()
    visitor.force_login(olga)
    assert 'id="source"' in visitor.get(path).content.decode()


def test_the_runs_of_a_suspended_account_are_stopped(run: Run) -> None:
    ann, sam = (get_user_model().objects.create_user(name) for name in ("ann", "sam"))
    Run.objects.filter(pk=run.pk).update(owner=ann, state=RunStatus.WAITING, claim=None)
    decisions.ban(ann, by=sam, reason="Hundreds of copies.")
    run.refresh_from_db()
    assert run.wish == Wish.STOP


def test_the_owner_of_a_run_is_told_its_end() -> None:
    owner = judgings.user("olga")
    run = factories.driven(factories.started(owner))
    [row] = Notification.objects.filter(owner=owner)
    assert (row.kind, row.path) == ("run-ended", run.get_absolute_url())
    assert row.text.startswith("Your run on mnist_linear_relu/forward has ended: ")


@pytest.mark.django_db
def test_the_emulator_is_shown_beside_the_judge_on_labelled_kernels(client: Client) -> None:
    page = client.get("/runs/verifiers/").content.decode()
    assert f"The emulator on {sum(item.rows for item in emulator_on_cuda().values())} labelled CUDA kernels" in page
    assert page.count('class="matrix"') == 1
    assert '<th scope="row">race</th>' in page
