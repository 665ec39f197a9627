"""Two that lock the same rows at once: neither waits for what the other one has (docs/architecture.md).

Each brings both to where they would wait for each other, and the database would end one. Not covered: how long one
waits for the other.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from agents import services as runs
from agents.driving import external
from agents.evolve.budget import Caps
from agents.evolve.config import RunConfig
from agents.evolve.model import Proposal
from agents.states import Wish
from benchmarks import comments, quotas, services, teams, transactions
from benchmarks.accounts import ownership
from benchmarks.boards import standings
from benchmarks.catalogue import folders
from benchmarks.catalogue.folders import spec_of
from benchmarks.harness import Source
from benchmarks.judgings import moves, recording
from benchmarks.models import Evaluation, KernelRequest, Standing, TaskVersion
from benchmarks.moderation import decisions
from benchmarks.notifications import telling
from benchmarks.requests import asking
from benchmarks.states import ActionKind, RequestState, State, TaskVersionStatus
from tests.benchmarks.conftest import make_worker
from tests.benchmarks.test_claims import at_once
from tests.fakes import report_for

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has one writer at a time"),
]
SOON_S = 10.0
LOCKING_S = 0.5  # until who locks next waits for what is held
Work = Callable[[], object]


@pytest.fixture(autouse=True)
def not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where two wait for each other, nothing hides it."""
    monkeypatch.setattr(transactions, "ATTEMPTS_MAX", 1)


def claimed(cpu: Any, name: str) -> moves.Holding:
    Evaluation.objects.filter(state=State.QUEUED, built=None).update(built=moves.timezone.now())
    holding = moves.evaluation_claim(make_worker(name=f"judge.cpu@{name}"), cpu)
    assert holding is not None
    return holding


def report(holding: moves.Holding, speedup: float) -> Any:
    evaluation = holding.evaluation
    version = TaskVersion.objects.get(task=evaluation.task_version.task_id, status=TaskVersionStatus.ACTIVE)
    return report_for(Source(evaluation.submission.blob.text, "cpp"), spec_of(version), speedup=speedup)


def judged(cpu: Any, speedup: float) -> None:
    holding = claimed(cpu, f"{speedup}")
    moves.record_report(holding, report(holding, speedup))


def asked_for(evaluation: Evaluation, owner: Any) -> KernelRequest:
    columns = {"title": "x", "reason": "x", "files": {}, "files_sha256": "0" * 64, "state": RequestState.OPEN}
    offer = {"worth_s": 3000, "worth_left_s": 3000}
    return KernelRequest.objects.create(owner=owner, task=evaluation.task_version.task, **columns, **offer)


def shown(evaluation: Evaluation, after: threading.Event) -> Work:
    def show() -> None:
        assert after.wait(SOON_S)
        evaluation.submission.refresh_from_db()
        ownership.visibility_change(evaluation.submission, "public")

    return show


def stopped(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, until: threading.Event | None = None) -> Any:
    """`name` is as before, but tells when it is reached, and goes on a moment later or when `until` has come."""
    reached, before = threading.Event(), getattr(where, name)

    def wait_first(*given: Any, **options: Any) -> Any:
        reached.set()
        (until.wait if until else time.sleep)(LOCKING_S)
        return before(*given, **options)

    monkeypatch.setattr(where, name, wait_first)
    return reached


def crossed(*works: Work) -> list[str]:
    """What goes wrong where these are done at once."""
    errors: list[str] = []

    def act(number: int) -> None:
        try:
            works[number]()
        except Exception as error:  # noqa: BLE001 - of a thread, told by the test
            errors.append(f"{number}: {error!r}"[:200])

    at_once(len(works), act)
    return errors


def tells_late(monkeypatch: pytest.MonkeyPatch, answered: threading.Event) -> None:
    """Who tells the owner of a request, with the boards held, says so and gives the other one time to ask for it."""
    told = telling.answered

    def tell(*given: Any) -> None:
        answered.set()
        time.sleep(LOCKING_S)
        told(*given)

    monkeypatch.setattr(telling, "answered", tell)


def test_an_answer_is_paid_while_a_better_one_is_shown(
    submit: Any, cpu: Any, person: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both write into the request: who pays from it, and who tells its owner that a board has a new first place."""
    ann, better = person("ann"), submit(owner=person("bob"), text="// better\n", visibility="private")
    judged(cpu, 9.0)
    request = asked_for(better, person("asker"))
    submit(owner=ann, text="// ann\n", payer=quotas.payer_of(ann, ""))
    holding = claimed(cpu, "b")
    end, answered = report(holding, 2.0), threading.Event()
    paid = stopped(monkeypatch, recording, "write", answered)

    tells_late(monkeypatch, answered)
    assert not crossed(lambda: moves.record_report(holding, end), shown(better, after=paid))
    request.refresh_from_db()
    assert request.worth_left_s < 3000
    assert len(request.told["cpu-avx2"]) > 0
    assert Standing.objects.count() == 2


def test_a_request_is_hidden_while_it_gets_a_better_answer(
    submit: Any, cpu: Any, person: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    better, staff = submit(owner=person("bob"), text="// better\n", visibility="private"), person("sam", is_staff=True)
    judged(cpu, 9.0)
    request, answered = asked_for(better, person("asker")), threading.Event()
    hidden = stopped(monkeypatch, asking, "task_withdraw", answered)

    tells_late(monkeypatch, answered)
    hide = lambda: asking.request_decide(request, ActionKind.HIDE, by=staff, reason="x")  # noqa: E731
    assert not crossed(hide, shown(better, after=hidden))


def test_reports_on_two_versions_wait_for_the_first_decision_about_their_task(
    submit: Any, cpu: Any, person: Any
) -> None:
    """From then on each changes the boards of both versions, and has waited for those of its own one."""
    first, bad, staff = submit(text="// one\n"), submit(text="// bad\n"), person("sam", is_staff=True)
    moves.evaluation_cancel(bad, "x")
    version, second = first.task_version, submit(text="// two\n")
    columns = {name: getattr(version, name) for name in ("task", "definition", "reference_source")}
    other = TaskVersion.objects.create(number=99, content_sha256="f" * 64, status="retired", **columns)
    Evaluation.objects.filter(pk=second.pk).update(task_version=other)
    holdings = [claimed(cpu, "a"), claimed(cpu, "b")]
    ends, decided = [report(holding, 2.0) for holding in holdings], threading.Event()

    def decide() -> None:
        with transaction.atomic():
            decisions.decide(bad.submission, ActionKind.HIDE, by=staff, reason="Advertising.")
            decided.set()
            time.sleep(1.0)

    def record(number: int) -> Work:
        return lambda: decided.wait(SOON_S) and moves.record_report(holdings[number], ends[number])

    assert not crossed(decide, record(0), record(1))
    assert set(Standing.objects.values_list("task_version", flat=True)) == {version.pk, other.pk}


def test_the_owner_of_a_team_leaves_while_the_heir_loses_a_first_place(
    submit: Any, cpu: Any, person: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heir's account is locked before the boards are; who holds these writes a notification for the heir."""
    owner, heir = person("owner"), person("heir")
    team = teams.team_create("many", by=owner)
    teams.invite(team, heir, by=owner)
    teams.answer(team.memberships.get(account=heir), accept=True)
    for account, speedup in ((owner, 1.5), (heir, 3.0)):
        submit(owner=account, text=f"// {account}\n")
        judged(cpu, speedup)
    better = submit(owner=person("bob"), text="// better\n", visibility="private")
    judged(cpu, 9.0)
    lost = stopped(monkeypatch, telling, "record_lost")
    locked = stopped(monkeypatch, ownership, "_hold", lost)
    leave = lambda: ownership.account_delete(owner, keep_submissions=True)  # noqa: E731
    assert not crossed(leave, shown(better, after=locked))
    assert heir.notifications.filter(text__startswith="Your first place").exists()


def test_a_submission_for_a_team_does_not_wait_for_who_changes_the_team(submit: Any, person: Any) -> None:
    """It is made by who holds a payer, which who changes the team may want next."""
    owner = person("owner")
    team = teams.team_create("many", by=owner)
    held, submitted = threading.Event(), threading.Event()

    def change() -> None:
        with transaction.atomic():
            teams._hold(team)
            held.set()
            assert submitted.wait(SOON_S)

    def make() -> None:
        assert held.wait(SOON_S)
        submit(owner=owner, team=team)
        submitted.set()

    assert not crossed(change, make)


def test_the_last_of_a_team_leaves_the_site_while_a_former_one_shows_what_was_made_for_it(
    submit: Any, cpu: Any, person: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The team would take all its submissions, of others too, before the boards."""
    last, former = person("last"), person("former")
    team = teams.team_create("many", by=last)
    made = submit(owner=former, text="// former\n", visibility="private", team=team)
    judged(cpu, 2.0)
    submit(owner=last, text="// last\n")
    judged(cpu, 3.0)
    locked = stopped(monkeypatch, ownership, "_hold")
    leave = lambda: ownership.account_delete(last, keep_submissions=True)  # noqa: E731
    assert not crossed(leave, shown(made, after=locked))
    teams.forget()
    assert not teams.Team.objects.exists()


def test_an_account_is_suspended_while_its_external_run_is_stopped(
    version: Any, cpu: Any, person: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both change the run and what it has in the queue."""
    owner, staff = person("owner"), person("sam", is_staff=True)
    config = RunConfig(task="x", proposer="external", caps=Caps(judgings=5))
    run = runs.run_start(runs.RunRequest(version, cpu, config, owner))
    external.look(run)
    monkeypatch.setattr(external, "_problem_of", lambda *_: None)
    external.send(run, external.Sent(Proposal("int x;\n", "cpp")))
    withdrawing = stopped(monkeypatch, external._Writing, "_withdraw")

    def suspend() -> None:
        assert withdrawing.wait(SOON_S)
        decisions.ban(owner, by=staff, reason="x")

    def stop() -> None:
        runs.run_wish(run, Wish.STOP, "its owner")
        external.look(runs.Run.objects.get(pk=run.pk))

    assert not crossed(suspend, stop)
    assert Evaluation.objects.get().state == State.CANCELLED


def test_two_people_comment_on_each_other_at_once(
    submit: Any, cpu: Any, person: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, both, commented = [], threading.Barrier(2), telling.commented
    for name in ("ann", "bob"):
        made.append(submit(owner=person(name), text=f"// {name}\n"))
        judged(cpu, 2.0)

    def tell(*given: Any) -> None:
        both.wait(SOON_S)
        commented(*given)

    def comment(on: Evaluation, by: Evaluation) -> Work:
        return lambda: comments.comment_create(on.submission, by=by.submission.owner, text="nice")

    monkeypatch.setattr(telling, "commented", tell)
    assert not crossed(comment(*made), comment(*reversed(made)))


def test_a_full_judging_is_asked_for_while_the_submission_is_shown(
    submit: Any, cpu: Any, person: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both lock the payer, whose places are counted, and the submission."""
    ann = person("ann")
    payer = quotas.payer_of(ann, "")
    quick = submit(owner=ann, text="// ann\n", visibility="private", payer=payer, quick=True)
    judged(cpu, 2.0)
    quick.refresh_from_db()
    placed, take_public_place = threading.Event(), quotas.take_public_place

    def take(*given: Any) -> None:
        take_public_place(*given)
        placed.set()

    monkeypatch.setattr(quotas, "take_public_place", take)
    asked = stopped(monkeypatch, quotas, "take_place", placed)
    assert not crossed(lambda: services.judge_in_full(quick, payer), shown(quick, after=asked))
    assert Evaluation.objects.filter(submission=quick.submission).count() == 2


def test_a_task_gets_a_new_version_while_its_finals_begin(version: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both add a version, so both lock the task, which one of them has changed."""
    spec, columns = spec_of(version), {"definition": {}, "reference_source": "", "content_sha256": "e" * 64}
    TaskVersion.objects.filter(pk=version.pk).update(content_sha256="f" * 64)
    changed = stopped(monkeypatch, folders, "_version_add")

    def deploy() -> None:
        with transaction.atomic():
            folders.task_sync(spec)

    def begin() -> None:
        assert changed.wait(SOON_S)
        with transaction.atomic():
            standings.boards_marked(version.task.versions.values_list("pk", flat=True))
            TaskVersion.objects.create(task=version.task, number=99, status=TaskVersionStatus.CONTEST, **columns)

    assert not crossed(deploy, begin)
    assert version.task.versions.count() == 3


def test_all_boards_of_a_task_are_written_anew_while_they_are_held(submit: Any) -> None:
    """An update of all versions in one statement locks them in the order in which they lie in the table."""
    first = submit()
    version = first.task_version
    columns = {name: getattr(version, name) for name in ("task", "definition", "reference_source")}
    first_key = {"pk": -1}  # it lies behind the other one
    TaskVersion.objects.create(number=99, content_sha256="f" * 64, status="retired", **columns, **first_key)
    held = threading.Event()

    def hold() -> None:
        with transaction.atomic():
            TaskVersion.objects.filter(**first_key).update(boards_due=False)
            held.set()
            time.sleep(LOCKING_S)
            standings.task_held(first)

    assert not crossed(hold, lambda: held.wait(SOON_S) and recording.boards_of_task(version.task))
