"""Requests from posting to their answers: examined once, paid from their offer, moved by one, told to their owner."""

import socket
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from benchmarks import jobs, quotas, selectors, services, switches
from benchmarks.accounts import ownership
from benchmarks.boards import overview, standings
from benchmarks.catalogue import importing
from benchmarks.catalogue.folders import spec_of
from benchmarks.harness import Examined, Source
from benchmarks.importers import SuiteOrigin
from benchmarks.judgings import moves
from benchmarks.models import (
    Evaluation,
    KernelRequest,
    LedgerEntry,
    Notification,
    RequestVote,
    Standing,
    Submission,
    SuiteImport,
    Task,
)
from benchmarks.requests import asking, examining, files, lists
from benchmarks.services import Refused
from benchmarks.states import ActionKind, RequestState, State, Switch, WorkerRole
from tests.asking import MODEL, SECONDS, examined, opened, outcome, posted, version_of
from tests.fakes import report_for
from tests.rows import cpu_kind

from .conftest import make_worker

pytestmark = pytest.mark.django_db
FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture
def olga(version, person):
    cpu_kind()
    return person("olga")


@pytest.fixture
def stefan(person):
    return person("stefan")


@pytest.fixture
def deliver(monkeypatch, olga):
    """Runs the job once, as the compile worker does, with a given examination."""
    monkeypatch.setattr(importing, "examine", outcome)
    make_worker(WorkerRole.COMPILE, name=socket.gethostname())

    def once():
        jobs.examine_next.apply(args=["cpu-avx2"]).get()

    return once


def answer(request, owner, text, speedup=2.0, changed=None, **how):
    """An ordinary submission to the task of the request, judged; its row is `changed` before."""
    version, cpu = version_of(request), cpu_kind()
    payer = quotas.payer_of(owner, "")
    fields = {"version": version, "text": text, "language": "cpp", "device_kind": cpu, "owner": owner, "payer": payer}
    evaluation = services.submission_create(**fields)
    Evaluation.objects.filter(state=State.QUEUED, built=None).update(built=evaluation.queued)
    Submission.objects.filter(pk=evaluation.submission_id).update(**changed or {})
    holding = moves.evaluation_claim(make_worker(), cpu)
    moves.record_report(holding, report_for(Source(text, "cpp"), spec_of(version), speedup=speedup, **how))
    evaluation.refresh_from_db()
    return evaluation


def now(request):
    return KernelRequest.objects.get(pk=request.pk)


def used_s(account):
    return next(meter.used for meter in quotas.meters_of(account, "") if meter.kind is quotas.JUDGING)


def told(account):
    return list(Notification.objects.filter(owner=account, kind="answer").order_by("pk").values_list("text", flat=True))


# --- from a definition to a task -----------------------------------------------------------------------------------


def test_a_definition_becomes_a_task_and_is_not_kept(deliver, olga):
    request = posted(olga, title="Row  softmax, fast")
    deliver()
    request = now(request)
    assert (request.state, request.files) == (RequestState.OPEN, {})
    assert request.task.path == f"requests/request_{request.pk}/forward"
    assert (request.task.title, request.task.listed) == ("Row softmax, fast", True)
    assert version_of(request).stored.origin_sha256
    assert used_s(olga) == SECONDS
    assert not SuiteImport.objects.exists()


def test_a_refusal_says_why_and_leaves_nothing_but_the_seconds(deliver, olga):
    request = posted(olga, text=MODEL + "# refuse\n", worth_s=100)
    assert used_s(olga) == 100
    deliver()
    request = now(request)
    assert (request.state, request.state_text) == (RequestState.REFUSED, "Its results are random <b>numbers</b>.")
    assert used_s(olga) == SECONDS
    assert not Task.objects.filter(suite__slug="requests").exists()
    assert not SuiteImport.objects.exists()
    assert told(olga) == ["The definition of your request “Row softmax” was refused."]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"a.json": "{}", "b.json": "{}"}, files.NO_DEFINITION),
        ({"definition.py": "class Model(:"}, "definition.py:1: "),
        ({"definition.py": "class Model: pass\n"}, "definition.py lacks get_inputs"),
        ({"task.yml": "lang: cu"}, "its language is 'cu', py is read here"),
        ({"definition.json": "{}"}, "definition.json"),
    ],
)
def test_what_no_importer_reads_is_refused_in_its_words(deliver, olga, given, problem):
    request = posted(olga, files=given)
    deliver()
    assert now(request).state == RequestState.REFUSED
    assert problem in now(request).state_text


@pytest.mark.parametrize(
    ("folder", "form"),
    [
        ("kernelbench/level1", "model"),
        ("robust_kbench/tasks/gated_linear", "function"),
        ("sol/scaled_backward", "definition"),
        ("flashinfer", "definition"),
        ("gpu_mode/problems/course/halve_copy", "case"),
    ],
)
def test_each_importable_format_is_recognised_from_flat_files(tmp_path, folder, form):
    """Uploads have no folders: whatever stood in some is found by its name."""
    paths = [
        path for path in sorted((FIXTURES / folder).rglob("*")) if path.suffix in (".py", ".json", ".jsonl", ".yml")
    ]
    if form == "model":
        paths = paths[:1]
    given = {path.name: path.read_text().replace("../../utils.py", "../utils.py") for path in paths}
    if form == "case":
        given["utils.py"] = (FIXTURES / "gpu_mode" / "problems" / "utils.py").read_text()
    found = files.found_in(files.checked_files(given), tmp_path)
    assert found.problem == ""
    assert found.task.form == form


@pytest.mark.parametrize(
    "name", ["../a.py", "a/b.py", "/etc/a.py", ".a.py", "a.sh", "a.py\n", "a b.py", "ä.py", "a" * 90 + ".py", ".py"]
)
def test_a_name_that_could_lead_elsewhere_is_refused(name):
    with pytest.raises(Refused, match="Names of files"):
        files.checked_files({name: "x"})


def test_sizes_are_bounded():
    with pytest.raises(Refused, match="more than 256 KiB"):
        files.checked_files({"a.py": "x" * 300_000})
    with pytest.raises(Refused, match="together"):
        files.checked_files({f"{name}.py": "x" * 200_000 for name in "abc"})
    with pytest.raises(Refused, match="at most 16 files"):
        files.checked_files({f"a{number}.py": "x" for number in range(17)})


def test_a_task_that_the_wanted_device_cannot_judge_is_refused(olga):
    request = posted(olga)
    holding = examining.request_claim()
    item, _ = examining.examine_files(holding.row, lambda found, _: Examined(None))
    good = outcome(item.task)
    only_gpu = replace(good.task, configs={"cuda": good.task.configs["cuda"]})
    assert holding.record(item, replace(good, task=only_gpu))
    assert now(request).state_text == "It has no configuration that can be judged on cpu-avx2."


def test_who_is_lost_twice_is_refused_and_gets_the_offer_back(olga):
    request = posted(olga, worth_s=50)
    for attempt in (1, 2):
        assert now(request).attempt == attempt
        holding = examining.request_claim()
        KernelRequest.objects.update(heartbeat=timezone.now() - timedelta(days=1))
        examining.requeue_lost_examinations()
        assert not holding.alive()
    assert (now(request).state, now(request).state_text) == (RequestState.REFUSED, examining.LOST)
    assert used_s(olga) == 0


def test_what_breaks_costs_nothing_and_what_never_ends_is_charged(monkeypatch, deliver, olga):
    def broken(*_, **__):
        raise OSError("no space")

    monkeypatch.setattr(importing, "examine", broken)
    first = posted(olga)
    deliver()
    assert now(first).state_text == examining.OURS
    assert used_s(olga) == 0
    second = posted(olga, text=MODEL + "# 2\n")
    examining.request_claim().take_too_long()
    assert "more than 10 minutes" in now(second).state_text
    assert used_s(olga) == examining.SECONDS_MAX


def test_a_lost_claim_writes_nothing(olga):
    request = posted(olga)
    holding = examining.request_claim()
    assert examining.request_claim() is None
    KernelRequest.objects.update(claim=None, state=RequestState.QUEUED)
    item, _ = examining.examine_files(request, lambda found, _: Examined(None))
    assert not holding.record(item, outcome(item.task))
    assert not Task.objects.filter(suite__slug="requests").exists()


def examine(account=None):
    """What is examined now, whose it must be; it is ended by our own fault."""
    holding = examining.request_claim()
    assert holding is not None
    if account is not None:
        assert holding.row.owner == account
    holding.fail()


def test_accounts_take_turns_and_one_is_examined_at_a_time(olga, stefan):
    for number in range(3):
        posted(olga, text=f"{MODEL}# {number}\n")
    posted(stefan)
    holding = examining.request_claim()
    assert holding.row.owner == olga
    assert examining.request_claim() is None
    holding.fail()
    for account in (stefan, olga, olga):
        examine(account)
    assert examining.request_claim() is None


def test_between_two_examinations_submissions_are_compiled(monkeypatch, olga, stefan):
    for number in range(2):
        posted(olga, text=f"{MODEL}# {number}\n")
    queued = services.submission_create(version=_shipped(), text="// waits\n", language="cpp", owner=stefan)
    examine()
    assert examining.request_claim() is None
    Evaluation.objects.filter(pk=queued.pk).update(built=timezone.now())
    examine()
    Evaluation.objects.filter(pk=queued.pk).update(built=None)
    posted(olga, text=f"{MODEL}# 2\n")
    assert examining.request_claim() is None
    later = timezone.now() + timedelta(seconds=examining.SECONDS_MAX + 1)
    monkeypatch.setattr(timezone, "now", lambda: later)
    examine()


def test_no_suite_is_imported_under_the_name_of_requests(olga, tmp_path):
    request = opened(olga)
    with pytest.raises(importing.NotImportable, match="suite of requests"):
        importing.import_suite(
            [],
            suite="requests",
            format_name="kernelbench",
            origin=SuiteOrigin(tmp_path),
            how=importing.Settings(),
            tell=lambda _: None,
        )
    assert version_of(request)


def test_the_suite_of_requests_is_nobodys_first(olga):
    for number in range(3):
        opened(olga, text=f"{MODEL}# {number}\n")
    assert [suite.slug for suite in overview.suites()] == ["robust-kbench", "requests"]


# --- limits --------------------------------------------------------------------------------------------------------


def test_one_definition_is_asked_for_once(olga, stefan):
    posted(olga)
    with pytest.raises(Refused, match="already posted"):
        posted(olga)
    assert posted(stefan)


def test_an_account_posts_so_many_a_day(monkeypatch, olga, stefan):
    monkeypatch.setattr(asking, "PER_DAY", 2)
    posted(olga)
    second = posted(olga, text=MODEL + "# 2\n")
    asking.request_close(second, "by mistake")
    with pytest.raises(asking.TooManyRequests, match="2 requests within a day"):
        posted(olga, text=MODEL + "# 3\n")
    assert posted(stefan)


def test_an_account_has_so_many_open(monkeypatch, olga):
    monkeypatch.setattr(asking, "UNFINISHED_MAX", 1)
    first = posted(olga)
    with pytest.raises(Refused, match="Close one of them first"):
        posted(olga, text=MODEL + "# 2\n")
    asking.request_close(first, "another one is better")
    assert posted(olga, text=MODEL + "# 2\n")


def test_nobody_offers_more_than_the_quota_has(settings, olga):
    settings.KBENCH_JUDGING_S_PER_DAY = 100
    with pytest.raises(Refused, match="100 s of judging time left"):
        posted(olga, worth_s=101)
    assert not KernelRequest.objects.exists()
    assert not LedgerEntry.objects.exists()
    posted(olga, worth_s=100)
    with pytest.raises(Refused, match=" 0 s of judging time left"):
        posted(olga, text=MODEL + "# 2\n", worth_s=1)


def test_a_switch_pauses_new_ones(olga):
    switches.switch_set(Switch.REQUESTS, on=False, message="until Monday")
    with pytest.raises(Refused, match="New requests are paused: until Monday"):
        posted(olga)


# --- what an offer pays --------------------------------------------------------------------------------------------


def test_verified_answers_of_others_are_paid_from_the_offer(olga, stefan):
    request = opened(olga, worth_s=10)
    answer(request, stefan, "// first\n")  # 5 s: verify and time; a build took none
    spent = now(request).worth_s - now(request).worth_left_s
    assert spent > 0
    assert used_s(stefan) == 0
    line = LedgerEntry.objects.get(kind="grant")
    assert (line.judging_s, line.payer.account) == (spent, stefan)
    answer(request, olga, "// own\n")
    answer(request, stefan, "// wrong\n", verdict="INCORRECT_VALUE")
    assert now(request).worth_left_s == 10 - spent
    KernelRequest.objects.update(worth_left_s=spent / 2)
    answer(request, stefan, "// second\n")
    assert now(request).worth_left_s == spent / 2
    assert LedgerEntry.objects.filter(kind="grant").count() == 1


def test_what_is_left_goes_back_on_the_day_of_the_offer_alone(olga):
    first, second = opened(olga, worth_s=60), opened(olga, text=MODEL + "# 2\n", worth_s=70)
    KernelRequest.objects.filter(pk=second.pk).update(created=timezone.now() - timedelta(days=2))
    for request in (first, second):
        asking.request_close(request, "no longer needed")
    assert list(LedgerEntry.objects.filter(kind="grant").values_list("judging_s", flat=True)) == [60]
    assert set(KernelRequest.objects.values_list("worth_left_s", flat=True)) == {0}


@pytest.mark.parametrize("columns", [{"visibility": "private"}, {"visibility": "unlisted"}, {"moderation": "hidden"}])
def test_an_offer_pays_nothing_that_is_not_public(olga, stefan, columns):
    request = opened(olga, worth_s=10)
    answer(request, stefan, "// kept\n", changed=columns)
    assert now(request).worth_left_s == 10
    assert used_s(stefan) > 0


def test_an_answer_that_was_paid_stays_public_and_loses_its_name_with_the_account(olga, stefan):
    request = opened(olga, worth_s=100)
    paid = answer(request, stefan, "// paid\n").submission
    free = answer(request, stefan, "// wrong\n", verdict="INCORRECT_VALUE").submission
    for wanted in ("private", "unlisted"):
        with pytest.raises(Refused, match="stays public with its source"):
            ownership.visibility_change(paid, wanted)
    with pytest.raises(Refused, match="if you delete your account"):
        ownership.submission_delete(paid)
    ownership.submission_delete(free)
    ownership.account_delete(stefan, keep_submissions=False)
    kept = Submission.objects.select_related("blob").get(task_version__task=request.task)
    assert (kept.owner, kept.visibility, kept.blob.text) == (None, "public", paid.blob.text)
    assert Standing.objects.get().evaluation.submission == kept


@pytest.mark.parametrize("second", ["int first;\n", "int  first;  // with a comment\n"])
@pytest.mark.parametrize("deleted", [False, True])
def test_an_offer_pays_a_program_once(olga, stefan, person, second, deleted):
    request = opened(olga, worth_s=100)
    first = answer(request, stefan, "int first;\n")
    left_s = now(request).worth_left_s
    assert left_s < 100
    if deleted:  # as it could be before answers that were paid had to stay
        first.submission.delete()
    for account in (stefan, person("ben")):
        answer(request, account, second)
        assert now(request).worth_left_s == left_s
        assert used_s(account) > 0
    answer(request, stefan, "int another;\n")
    assert now(request).worth_left_s < left_s


def test_what_goes_back_counts_no_longer_than_what_was_offered(settings, monkeypatch, olga):
    """Otherwise an offer that is taken back late on its day would double the quota of the next one."""
    settings.KBENCH_JUDGING_S_PER_DAY = 100
    began = timezone.now()

    def after(hours):
        monkeypatch.setattr(timezone, "now", lambda: began + timedelta(hours=hours))

    request = opened(olga, worth_s=90)
    after(23.9)
    asking.request_close(request, "no longer needed")
    assert used_s(olga) == SECONDS
    after(24.2)
    quotas.spend(quotas.payer_of(olga, ""), 50, "judged")
    assert used_s(olga) == 50


# --- moves ---------------------------------------------------------------------------------------------------------


def test_of_two_ends_one_succeeds(olga, stefan):
    request = opened(olga)
    evaluation = answer(request, stefan, "// a\n")
    stale = now(request)
    asking.request_accept(request, evaluation)
    assert (now(request).state, now(request).accepted) == (RequestState.ANSWERED, evaluation)
    with pytest.raises(Refused, match="can be closed"):
        asking.request_close(stale, "too late")
    with pytest.raises(Refused, match="not open"):
        asking.request_accept(stale, evaluation)


@pytest.mark.parametrize("columns", [{"visibility": "private"}, {"moderation": "hidden"}])
def test_only_a_public_accepted_entry_is_an_answer(olga, stefan, columns):
    request = opened(olga)
    wrong = answer(request, stefan, "// wrong\n", verdict="INCORRECT_VALUE")
    taken_back = answer(request, stefan, "// right\n")
    type(taken_back.submission).objects.filter(pk=taken_back.submission_id).update(**columns)
    elsewhere = services.submission_create(version=_shipped(), text="// other\n", language="cpp", owner=stefan)
    for evaluation in (wrong, taken_back, elsewhere):
        with pytest.raises(Refused, match="can be its answer"):
            asking.request_accept(request, evaluation)
    assert now(request).state == RequestState.OPEN


def _shipped():
    return selectors.active_version("robust-kbench", "mnist_linear_relu", "forward")


def test_an_accepted_answer_that_is_withdrawn_is_not_shown(olga, stefan):
    request = opened(olga)
    evaluation = answer(request, stefan, "// a\n")
    asking.request_accept(request, evaluation)
    assert lists.accepted_answer(now(request)) == evaluation
    type(evaluation.submission).objects.update(visibility="private")
    assert lists.accepted_answer(now(request)) is None


def test_one_that_is_being_examined_is_not_closed(olga):
    request = posted(olga)
    examining.request_claim()
    with pytest.raises(Refused, match="being examined"):
        asking.request_close(request, "too late")


def test_the_database_keeps_the_rules(olga):
    request = posted(olga)
    for columns in ({"state": "open"}, {"worth_left_s": 1.0}, {"worth_left_s": -1.0}, {"moderation": "invalidated"}):
        with pytest.raises(IntegrityError), transaction.atomic():
            KernelRequest.objects.filter(pk=request.pk).update(**columns)


# --- votes ---------------------------------------------------------------------------------------------------------


def test_an_account_has_one_vote_and_may_take_it_back(olga, stefan, person):
    request, other = opened(olga), opened(stefan, text=MODEL + "# 2\n")
    for _ in range(2):
        asking.request_vote(request, by=stefan, wanted=True)
    assert [(row.pk, row.vote_count) for row in lists.request_rows(stefan)] == [(request.pk, 1), (other.pk, 0)]
    assert [row.voted for row in lists.request_rows(stefan)] == [True, False]
    assert [row.pk for row in lists.request_rows(stefan, "newest")] == [other.pk, request.pk]
    with pytest.raises(IntegrityError), transaction.atomic():
        RequestVote.objects.create(request=request, account=stefan)
    asking.request_vote(request, by=stefan, wanted=False)
    assert not RequestVote.objects.exists()


def test_nobody_votes_for_their_own_or_for_what_is_over(monkeypatch, olga, stefan):
    request = opened(olga)
    with pytest.raises(Refused, match="of your own"):
        asking.request_vote(request, by=olga, wanted=True)
    asking.request_close(request, "done elsewhere")
    with pytest.raises(Refused, match="only vote for open requests"):
        asking.request_vote(request, by=stefan, wanted=True)
    assert list(lists.request_rows(stefan, "open")) == []
    assert len(lists.request_rows(stefan)) == 1
    monkeypatch.setattr(asking, "VOTES_PER_DAY", 0)
    with pytest.raises(asking.TooManyRequests):
        asking.request_vote(opened(olga, text=MODEL + "# 2\n"), by=stefan, wanted=True)


# --- answers -------------------------------------------------------------------------------------------------------


def test_the_first_of_the_board_is_the_answer(olga, stefan, person):
    request = opened(olga)
    assert lists.answers_of(request) == []
    answer(request, stefan, "// slow\n", 1.5)
    best = answer(request, person("paul"), "// fast\n", 3.0)
    [found] = lists.answers_of(now(request))
    assert (found.evaluation, found.row.score, found.entries, found.wanted) == (best, 3.0, 2, True)
    assert (found.first.eager_us, found.first.compile_us) == (100.0, 120.0)
    [row] = lists.request_rows(stefan)
    assert row.best == 3.0


def test_where_nothing_is_ranked_the_fastest_accepted_one_is_shown(olga, stefan):
    request = examined(posted(olga), labels=("small-output",))
    answer(request, stefan, "// slow\n", 1.5)
    best = answer(request, stefan, "// fast\n", 3.0)
    assert not Standing.objects.exists()
    assert [found.evaluation for found in lists.answers_of(now(request))] == [best]


def test_the_owner_is_told_of_the_first_answer_and_of_better_ones(olga, stefan, person):
    request = opened(olga)
    slow = answer(request, stefan, "// slow\n", 1.5)
    answer(request, person("paul"), "// slower\n", 1.2)
    answer(request, person("petra"), "// fast\n", 3.0)
    answer(request, olga, "// own\n", 4.0)
    standings.standings_renew(slow)
    assert told(olga) == [
        "A first verified answer to your request “Row softmax”: 1.50× on cpu-avx2.",
        "A new best answer to your request “Row softmax”: 3.00× on cpu-avx2.",
    ]


# --- what staff decide ---------------------------------------------------------------------------------------------


def test_staff_hide_a_request_with_its_task_and_show_both_again(olga, stefan, person):
    request = opened(olga)
    answer(request, stefan, "// a\n")
    sam = person("sam", is_staff=True)
    assert len(selectors.newest_records()) == 1
    asking.request_decide(request, ActionKind.HIDE, by=sam, reason="spam")
    assert not lists.published().exists()
    assert selectors.find_active_version("requests", request.task.op, "forward") is None
    assert selectors.newest_records() == []
    with pytest.raises(Refused, match="already hidden"):
        asking.request_decide(request, ActionKind.HIDE, by=sam, reason="again")
    asking.request_decide(request, ActionKind.RESTORE, by=sam, reason="no spam after all")
    assert lists.published().exists()
    assert selectors.find_active_version("requests", request.task.op, "forward") == version_of(request)
    assert len(selectors.newest_records()) == 1
    lines = request.moderation_actions.values_list("kind", "subject", "public_reason")
    assert list(lines) == [
        ("restore", f"request {request.pk}", "no spam after all"), ("hide", f"request {request.pk}", "spam"),
    ]  # fmt: skip


def test_one_without_a_task_is_not_for_staff(olga, person):
    with pytest.raises(Refused):
        asking.request_decide(posted(olga), ActionKind.HIDE, by=person("sam"), reason="spam")
