"""What cannot be chosen, continued or forked, and the reason; jobs that find nothing to do."""

from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.messages import get_messages
from django.db.models import QuerySet
from django.test import Client
from django.utils import timezone
from kombu.exceptions import OperationalError

from agents import jobs, proposals, queue, services
from agents.evolve.budget import Caps
from agents.extension import readers
from agents.models import Run
from agents.states import Wish
from benchmarks.extensions import ReferenceUnread
from benchmarks.services import Refused
from benchmarks.states import TaskVersionStatus
from tests.web import factories as judgings

from . import factories

NO_KEY = "This site has no key for a language model: its operator can set ANTHROPIC_API_KEY."
NOT_STAFF = "On a public site only staff may spend the operator's money."
PERSON, STAFF = SimpleNamespace(is_staff=False), SimpleNamespace(is_staff=True)


@pytest.mark.parametrize(
    ("key", "public", "user", "problem"),
    [
        ("", False, STAFF, NO_KEY),
        ("", True, STAFF, NO_KEY),
        ("k", False, PERSON, ""),
        ("k", False, AnonymousUser(), ""),
        ("k", True, PERSON, NOT_STAFF),
        ("k", True, AnonymousUser(), NOT_STAFF),
        ("k", True, STAFF, ""),
    ],
)
def test_money_is_spent_with_a_key_and_on_a_public_site_by_staff(
    settings: Any, key: str, public: bool, user: Any, problem: str
) -> None:
    settings.ANTHROPIC_API_KEY, settings.KBENCH_PUBLIC = key, public
    paid = {choice.name: choice.paid for choice in proposals.CHOICES if not choice.local}  # a local model has no key
    problems = {choice.name: choice.problem for choice in proposals.choices_for(user) if choice.name in paid}
    assert {problems[name] for name in problems if paid[name]} == {problem}
    assert {problems[name] for name in problems if not paid[name]} == {""}
    assert ("critic" in dict(proposals.verifiers_for(user))) is (problem == "")
    assert proposals.problem_with("hybrid", user) == problem
    assert proposals.problem_with("random", user) == ""


@pytest.mark.parametrize("name", ["external", "nobody's", ""])
def test_a_proposer_that_the_site_does_not_have_is_refused_with_those_that_it_has(name: str) -> None:
    said = proposals.problem_with(name, PERSON)  # type: ignore[arg-type]
    assert said.startswith(f"There is no proposer {name}; known: template-evo, ")
    assert "external," not in said.partition("known")[2]


# --- references read by a language model ---


@pytest.mark.parametrize("key", ["", "  "])
def test_without_a_key_no_reference_is_read(settings: Any, key: str) -> None:
    settings.ANTHROPIC_API_KEY = key
    with pytest.raises(ReferenceUnread, match="ANTHROPIC_API_KEY"):
        readers.reference_reader(1.0)


def test_a_broken_table_of_prices_keeps_references_unread(settings: Any, tmp_path: Path) -> None:
    """Whoever set a key must see that no limit in dollars could be kept."""
    prices = tmp_path / "prices.toml"
    prices.write_text("not = [toml")
    settings.ANTHROPIC_API_KEY, settings.KBENCH_MODEL_PRICES = "k", prices
    with pytest.raises(ReferenceUnread, match=r"prices\.toml"):
        readers.reference_reader(1.0)


# --- runs ---


@pytest.fixture
def run(tasks: Any) -> Run:
    return factories.driven()


def told(response: Any) -> list[str]:
    return [str(message) for message in get_messages(response.wsgi_request)]


def test_a_log_keeps_no_name_of_who_paused_or_stopped_the_run(visitor: Client, owner: User, staff: User) -> None:
    """The account may be deleted, and the log never changes."""
    run = factories.started(owner)
    for person, wish in ((owner, "pause"), (staff, "stop")):
        visitor.force_login(person)
        visitor.post(f"{run.get_absolute_url()}{wish}/")
    run.refresh_from_db()
    assert run.reason_text == "Stopped by staff."
    log = b"".join(visitor.get(f"{run.get_absolute_url()}log.jsonl")).decode()
    assert "Paused by its owner." in log
    assert not [person for person in (owner, staff) if person.username in log]


@pytest.mark.parametrize(("is_staff", "role"), [(False, "a visitor"), (True, "staff")])
def test_who_started_a_run_before_logging_in_is_staff_only_if_they_are(
    visitor: Client, owner: User, is_staff: bool, role: str
) -> None:
    run = factories.started()
    owner.is_staff = is_staff
    owner.save()
    visitor.force_login(owner)
    session = visitor.session
    session["runs"] = [str(run.code)]
    session.save()
    visitor.post(f"{run.get_absolute_url()}stop/")
    run.refresh_from_db()
    assert run.reason_text == f"Stopped by {role}."


def test_names_in_logs_of_before_are_taken_out(owner: User) -> None:
    run = factories.started(owner)
    services.run_wish(run, Wish.STOP, owner.username)
    import_module("agents.migrations.0008_no_names_in_logs").rename(apps, None)
    run.refresh_from_db()
    assert run.reason_text == "Stopped by its owner."
    assert owner.username not in str(list(run.events.values_list("payload", flat=True)))


@pytest.mark.parametrize("done", [0, 1, 2])
def test_taking_out_names_may_be_interrupted_and_repeated(
    owner: User, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    run = factories.started(owner)
    services.run_wish(run, Wish.STOP, owner.username)
    rename, update, calls = import_module("agents.migrations.0008_no_names_in_logs").rename, QuerySet.update, []

    def interrupted(rows: Any, **columns: Any) -> int:
        calls.append(columns)
        if len(calls) > done:
            raise ConnectionError
        return update(rows, **columns)

    with monkeypatch.context() as patch:
        patch.setattr(QuerySet, "update", interrupted)
        with pytest.raises(ConnectionError):
            rename(apps, None)
    rename(apps, None)
    run.refresh_from_db()
    assert run.reason_text == "Stopped by its owner."
    assert owner.username not in str(list(run.events.values_list("payload", flat=True)))


@pytest.mark.parametrize("wish", ["pause", "resume", "stop"])
def test_a_run_that_has_ended_takes_no_wish(visitor: Client, run: Run, wish: str) -> None:
    session = visitor.session
    session["runs"] = [str(run.code)]  # this browser has started it
    session.save()
    before = (run.state, run.last_seq)
    response = visitor.post(f"{run.get_absolute_url()}{wish}/")
    run.refresh_from_db()
    assert (run.state, run.last_seq) == before
    assert len(told(response)) == 1


@pytest.mark.parametrize(
    ("form", "words"),
    [({}, "limit"), ({"judgings": "0"}, "greater"), ({"judgings": "many"}, "whole number"), ({"seed": "1"}, "limit")],
)
def test_a_fork_that_makes_no_sense_is_refused_with_the_reason(
    visitor: Client, run: Run, form: dict[str, str], words: str
) -> None:
    response = visitor.post(f"{run.get_absolute_url()}fork/", form)
    assert response.status_code == 302
    assert words in " ".join(told(response))
    assert Run.objects.count() == 1


def test_a_version_that_is_not_judged_any_more_starts_and_forks_no_run(visitor: Client, run: Run) -> None:
    run.task_version.status = TaskVersionStatus.RETIRED
    run.task_version.save()
    request = services.RunRequest(run.task_version, run.device_kind, factories.config(), None)
    with pytest.raises(Refused, match="no longer judged"):
        services.run_start(request)
    response = visitor.post(f"{run.get_absolute_url()}fork/", {"judgings": "3"})
    assert told(response) == ["This version of the task is no longer judged."]
    assert Run.objects.count() == 1


def test_a_run_with_settings_that_nobody_knows_any_more_is_not_forked(run: Run) -> None:
    """Its configuration was written by another version of kbench."""
    run.config = {**run.config, "generations_of_old": 3}
    with pytest.raises(Refused):
        services.run_fork(run, owner=None, seed=1, more=Caps(judgings=3))
    assert Run.objects.count() == 1


def test_a_fork_asks_the_critic_for_those_alone_who_may_choose_it(run: Run, settings: Any) -> None:
    """Its proposer costs nothing, its verifier does."""
    settings.ANTHROPIC_API_KEY, settings.KBENCH_PUBLIC = "k", True
    Run.objects.filter(pk=run.pk).update(config={**run.config, "verifiers": ["static", "critic"]})
    run.refresh_from_db()
    stranger, staff = judgings.user("stefan"), judgings.user("sam")
    staff.is_staff = True
    for owner, caps, words in (
        (None, Caps(judgings=3, usd=1.0), "only staff"),
        (stranger, Caps(judgings=3, usd=1.0), "only staff"),
        (staff, Caps(judgings=3), "limit in dollars"),
    ):
        with pytest.raises(Refused, match=words):
            services.run_fork(run, owner=owner, seed=1, more=caps)
    assert services.run_fork(run, owner=staff, seed=1, more=Caps(judgings=3, usd=1.0)).forked_from == run


def test_forks_copy_a_limited_number_of_events_a_day(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each copies and reads a log that may be long, in one request."""
    monkeypatch.setattr(services, "FORKED_EVENTS_PER_DAY", run.last_seq + 1)
    ann, bob = judgings.user("ann"), judgings.user("bob")
    first = services.run_fork(run, owner=ann, seed=1, more=Caps(judgings=3))
    with pytest.raises(Refused, match="forked runs with"):
        services.run_fork(run, owner=ann, seed=2, more=Caps(judgings=3))
    services.run_fork(run, owner=bob, seed=2, more=Caps(judgings=3))
    Run.objects.filter(pk=first.pk).update(created=timezone.now() - timedelta(days=2))
    services.run_fork(run, owner=ann, seed=2, more=Caps(judgings=3))


# --- jobs ---


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the job does; its thread's connections are those of the test, and stay."""
    done: list[str] = []
    monkeypatch.setattr(jobs, "connections", SimpleNamespace(close_all=lambda: done.append("closed")))
    monkeypatch.setattr(jobs, "drive_run", lambda holding: done.append(f"driven {holding.run.pk}"))
    yield done
    jobs.draining.clear()


def drive_next() -> None:
    """As a worker called `agents@test` runs the job."""
    jobs.drive_next.push_request(hostname="agents@test")
    try:
        jobs.drive_next.run()
    finally:
        jobs.drive_next.pop_request()


@pytest.mark.django_db
def test_a_job_without_a_run_does_nothing_and_keeps_no_connection(job: list[str]) -> None:
    drive_next()
    assert job == ["closed"]


def test_a_worker_that_is_asked_to_end_takes_no_run(job: list[str], tasks: Any) -> None:
    waiting = factories.started()
    jobs._drain()
    drive_next()
    waiting.refresh_from_db()
    assert (job, waiting.claim) == ([], None)


def test_a_job_drives_the_run_that_waits(job: list[str], tasks: Any) -> None:
    waiting = factories.started()
    drive_next()
    assert job == [f"driven {waiting.pk}", "closed"]


def test_connections_are_closed_when_driving_fails(job: list[str], tasks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(holding: Any) -> None:
        raise RuntimeError("the disk is full")

    factories.started()
    monkeypatch.setattr(jobs, "drive_run", broken)
    with pytest.raises(RuntimeError):
        drive_next()
    assert job == ["closed"]


@pytest.mark.parametrize(
    ("waiting", "on_the_way", "sent"),
    [(0, 0, 0), (3, 0, 3), (3, 2, 1), (3, 5, 0), (10**6, 0, queue.OUTSTANDING_MAX)],
)
def test_as_many_messages_are_on_their_way_as_runs_wait_and_not_many_more(
    monkeypatch: pytest.MonkeyPatch, waiting: int, on_the_way: int, sent: int
) -> None:
    messages: list[None] = []
    monkeypatch.setattr(queue, "_send", lambda: messages.append(None))
    monkeypatch.setattr(queue, "outstanding", lambda _: on_the_way)
    queue.resend(waiting)
    assert len(messages) == sent


@pytest.mark.parametrize("error", [OperationalError("no broker"), OSError("no socket")])
def test_without_a_broker_a_run_waits_for_the_next_look(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(queue.current_app, "send_task", failing)
    queue._send()
    assert "the next look will try again" in caplog.text
