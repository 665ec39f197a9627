"""A busy site in a database: `python -m lab.site.filling SUBMISSIONS` with the settings of that site around it.

Tasks, methods, accounts, runs and what staff decided are made here, submissions in `judgings.py`; all of it in bulk
and from one seed, so that two fillings of one size differ in nothing but their times. The last line of the output is
JSON: the names that `addresses.py` puts into addresses, and tokens to submit with.
Does NOT start or measure anything.
"""

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from random import Random
from typing import Any

import django

if __name__ == "__main__":
    django.setup()

from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.sessions.backends.db import SessionStore
from django.db import transaction
from django.utils import timezone

from agents.models import Candidate, Opinion, RecordedRun, Run, RunEvent
from benchmarks import teams
from benchmarks.accounts import tokens
from benchmarks.catalogue import devices
from benchmarks.emulator import EmulatorFinding, EmulatorReport, EmulatorVerdict
from benchmarks.judgings.checks import FINDINGS_MAX
from benchmarks.models import (
    Comment,
    EmulatorCheck,
    Evaluation,
    ImportReport,
    KernelRequest,
    Method,
    ModerationAction,
    NewsPost,
    ProfileRequest,
    RejudgeBatch,
    RejudgeItem,
    RequestVote,
    Standing,
    Submission,
    Suite,
    SuiteImport,
    Task,
    TaskVersion,
    Worker,
)
from benchmarks.operations.statistics import statistics_gather
from benchmarks.recorded import loading
from benchmarks.states import (
    BatchState,
    CheckState,
    ImportOutcome,
    MethodKind,
    Moderation,
    RequestState,
    WorkerRole,
    WorkerState,
)
from lab.site import boards, judgings
from tests import profiled
from tests.agents import factories as runs
from tests.fakes import CPU, GPU
from tests.web import contests, factories

SEED = 20_261_121
CHUNK = 2_000
SUITES = ("robust-kbench", "kernels-of-a-lab", "layers", "losses", "attention")
IMPORTED = "layers"
FAMILIES = ("linear", "convolution", "normalisation", "reduction", "attention", "loss")
KINDS = (MethodKind.AGENT, MethodKind.AGENT, MethodKind.LIBRARY, MethodKind.HUMAN)


@dataclass(frozen=True)
class Size:
    """How much of everything there is on a site with so many submissions."""

    submissions: int

    @property
    def _scale(self) -> float:
        return math.sqrt(self.submissions / 100_000)

    @property
    def tasks(self) -> int:
        return round(1_000 * self._scale)

    @property
    def methods(self) -> int:
        return round(50 * self._scale)

    @property
    def accounts(self) -> int:
        return round(2_000 * self._scale)

    @property
    def runs(self) -> int:
        return round(300 * self._scale)

    @property
    def decisions(self) -> int:
        """Entries that staff hid, invalidated or judged again, each; and reports."""
        return round(500 * self._scale)


def fill(size: Size, random: Random) -> dict[str, Any]:
    accounts = _accounts(size.accounts)
    targets = judgings.Targets(
        versions=_tasks(size.tasks, random),
        methods=_methods(size.methods),
        accounts=accounts,
        kinds=(devices.register(CPU), devices.register(GPU)),
        now=timezone.now(),
    )
    _worker_of_gpu(targets)
    _import(list(targets.versions), targets.now)
    judgings.fill(targets, size.submissions, random)
    batch = _decisions(targets, size.decisions, accounts[1])
    run = _runs(size.runs, targets, random)
    contest = _contest(targets)
    run["check"] = _check(targets)
    names = judgings.names(targets)
    _profile(names["evaluation"])
    run["team"] = _team(accounts)
    run["comment"] = _comments(names["submission"], accounts)
    run["post"] = _news(targets)
    run["request"] = _requests(targets)
    for path in sorted(loading.SHIPPED.glob("*.jsonl")):
        loading.load_file(path)
    run["recorded_run"] = str(RecordedRun.objects.values_list("code", flat=True)[0])
    return names | {"change": str(batch.code), "contest": contest, **run, **_people(accounts)}


def _contest(targets: judgings.Targets) -> str:
    """One that runs, with the first accounts as participants."""
    tasks = [version.task for version in targets.versions[:5]]
    starts, ends = targets.now - judgings.SPAN, targets.now + timedelta(days=1)
    fields = {"starts": starts, "ends": ends, "tasks": tasks, "device_kinds": list(targets.kinds), "hidden": None}
    return contests.running_with(*targets.accounts[:50], slug="a-contest", **fields).slug


def chunks(rows: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(rows)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk


def write(model: Any, rows: Iterable[Any]) -> list[Any]:
    """In transactions short enough not to block other writers."""
    written = []
    for chunk in chunks(rows):
        with transaction.atomic():
            written += model.objects.bulk_create(chunk)
    return written


def _accounts(count: int) -> list[Any]:
    """The first is the one that pages are read as, the second is of staff."""
    users = get_user_model()
    return write(users, [users(username=f"person-{number:04}", is_staff=number == 1) for number in range(count)])


def _check(targets: judgings.Targets) -> str:
    """A check without a GPU with as many findings as are stored."""
    finding = EmulatorFinding("race", "two threads write", kernel="linear", line=12, block=(0, 0, 0), thread=(1, 0, 0))
    report = EmulatorReport(EmulatorVerdict.WRONG, "race: two threads write", 12, (finding,) * FINDINGS_MAX)
    stored = {"verdict": report.verdict.value, "report": report.to_json(), "finished": targets.now}
    text = "__global__ void linear() {}\n" * 200
    owned = {"task_version": targets.versions[0], "owner": targets.accounts[0], "text": text}
    return str(EmulatorCheck.objects.create(state=CheckState.DONE, **owned, **stored).code)


def _profile(code: str) -> None:
    """Of the evaluation whose pages are asked for."""
    evaluation = Evaluation.objects.get(code=code)
    result = profiled.profile().to_json()
    ProfileRequest.objects.create(evaluation=evaluation, state=CheckState.DONE, result=result, finished=timezone.now())


def _comments(code: str, accounts: list[Any]) -> str:
    """A long discussion of one submission."""
    submission = Submission.objects.get(code=code)
    text = "Have you tried to keep the row in registers? See https://example.org/rows for numbers.\n" * 5
    rows = [Comment(submission=submission, author=author, text=text) for author in accounts[:200]]
    return str(write(Comment, rows)[0].pk)


def _news(targets: judgings.Targets) -> str:
    """A post for every week of the last years, and some drafts."""
    text = "The rules have changed, and entries are judged again. See https://example.org/rules for why.\n\n" * 5
    weeks = [targets.now - timedelta(weeks=number) for number in range(150)]
    rows = [NewsPost(title=f"Week {number}", text=text, published=moment) for number, moment in enumerate(weeks)]
    return str(write(NewsPost, [*rows, *(NewsPost(title="A draft", text=text) for _ in range(5))])[0].pk)


def _requests(targets: judgings.Targets) -> str:
    """One for each of the first tasks, with votes; the first has its entries as answers."""
    now, wanted = timezone.now(), {"reason": "Our model waits for this layer.\n" * 10, "state": RequestState.OPEN}
    rows = write(
        KernelRequest,
        (
            KernelRequest(owner=account, title=version.task.title, task=version.task, opened=now, **wanted)
            for account, version in zip(targets.accounts, targets.versions[:200], strict=False)
        ),
    )
    voters = targets.accounts[:50]
    votes = ((row, account) for number, row in enumerate(rows) for account in voters[number % 50 :])
    write(RequestVote, (RequestVote(request=row, account=account) for row, account in votes))
    for row in rows:
        row.device_kinds.set(targets.kinds)
    return str(rows[0].pk)


def _team(accounts: list[Any]) -> str:
    """One of several accounts, with everything that the first of them has submitted."""
    made = teams.team_create("a-team", by=accounts[0])
    for account in accounts[1:10]:
        teams.invite(made, account, by=accounts[0])
    Submission.objects.filter(owner=accounts[0]).update(team=made)
    return made.name


def _people(accounts: list[Any]) -> dict[str, Any]:
    reader, staff = accounts[:2]
    given = [tokens.token_create(user, "bench").text for user in accounts[2:52]]
    return {
        "reader": {"name": reader.username, "session": _session(reader)},
        "staff": {"name": staff.username, "session": _session(staff)},
        "token": tokens.token_create(reader, "bench").text,
        "tokens": given,
    }


def _session(user: Any) -> str:
    """The key of a session in which the account is logged in."""
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    return str(session.session_key)


def _tasks(count: int, random: Random) -> list[TaskVersion]:
    """The shipped task first, then such as it; all judged now."""
    model = factories.version()
    for slug in SUITES:
        Suite.objects.get_or_create(slug=slug, defaults={"title": slug.replace("-", " ").title()})
    suites = list(Suite.objects.filter(slug__in=SUITES))
    tasks = write(Task, [_task(number, random.choice(suites), random) for number in range(count - 1)])
    versions = [
        TaskVersion(
            task=task,
            number=1,
            content_sha256=f"{number:064x}",
            definition=model.definition,
            reference_source=model.reference_source,
        )
        for number, task in enumerate(tasks)
    ]
    return [model, *write(TaskVersion, versions)]


def _import(versions: list[TaskVersion], now: datetime) -> None:
    """One suite is told to have come from a folder."""
    suite = Suite.objects.get(slug=IMPORTED)
    run = SuiteImport.objects.create(suite=suite, format="kernelbench", folder="KernelBench", finished=now)
    mine = [version for version in versions if version.task.suite_id == suite.pk]
    reports = [
        ImportReport(
            run=run, op=item.task.op, direction=item.task.direction, outcome=ImportOutcome.CREATED, version=item
        )
        for item in mine
    ]
    write(ImportReport, reports)


def _task(number: int, suite: Suite, random: Random) -> Task:
    family = random.choice(FAMILIES)
    return Task(
        suite=suite,
        op=f"{family}_{number:04}",
        direction=random.choice(("forward", "forward", "backward")),
        title=f"{family.capitalize()} layer {number}",
        summary=f"A {family} layer with an activation behind it, as variant {number} has it.",
        family=family,
        labels=["one-shape"] if random.random() < 0.1 else [],
    )


def _methods(count: int) -> list[Method]:
    made = [
        Method(slug=f"method-{number:02}", title=f"Method {number}", kind=KINDS[number % len(KINDS)])
        for number in range(count - 1)
    ]
    return [Method.objects.get(slug="human"), *write(Method, made)]


def _worker_of_gpu(targets: judgings.Targets) -> None:
    """A GPU host that is heard of for as long as anybody measures, and never asks for work."""
    Worker.objects.create(
        name="judge@gpu-host",
        role=WorkerRole.JUDGE,
        device_kind=targets.kinds[1],
        device=GPU.name,
        state=WorkerState.ONLINE,
        started=targets.now,
        heartbeat=targets.now + timedelta(days=1),
        isolation="bubblewrap",
        isolation_strong=True,
        tested=targets.now,
        test_passed=True,
    )


def _decisions(targets: judgings.Targets, count: int, staff: Any) -> RejudgeBatch:
    """Hidden, invalidated and reported submissions, and a batch of entries that were judged again."""
    ranked = list(boards.ranked_evaluations(3 * count))
    for state, kind, some in (
        (Moderation.HIDDEN, "hide", ranked[:count]),
        (Moderation.INVALIDATED, "invalidate", ranked[count : 2 * count]),
    ):
        Submission.objects.filter(pk__in=[item.submission_id for item in some]).update(moderation=state)
        Standing.objects.filter(evaluation__in=some).delete()
        write(ModerationAction, [_action(kind, item, staff) for item in some])
    write(ModerationAction, [_action("flag", item, staff) for item in ranked[2 * count :]])
    return _batch(targets, ranked[2 * count :], staff)


def _action(kind: str, evaluation: Any, staff: Any) -> ModerationAction:
    words = "It returns what another process computed."
    texts = {"private_note": words} if kind == "flag" else {"public_reason": words}
    return ModerationAction(
        kind=kind, actor=staff, submission=evaluation.submission, subject=f"submission {evaluation.code}", **texts
    )


def _batch(targets: judgings.Targets, before: list[Any], staff: Any) -> RejudgeBatch:
    batch = RejudgeBatch.objects.create(
        reason="The clock of one host ran fast.",
        ruleset=before[0].ruleset,
        requested_by=staff,
        state=BatchState.DONE,
        finished=targets.now,
    )
    after = boards.judged_again(before, targets.now)
    items = [
        RejudgeItem(
            batch=batch,
            position=place,
            before=old,
            after=new,
            version_id=old.task_version_id,
            rank_before=place + 1,
            rank_after=place + 2,
        )
        for place, (old, new) in enumerate(zip(before, after, strict=True))
    ]
    write(RejudgeItem, items)
    return batch


# --- runs ----------------------------------------------------------------------------------------------------------


def _runs(count: int, targets: judgings.Targets, random: Random) -> dict[str, str]:
    """Copies of one search, by all methods on all tasks; names of the search itself."""
    model = runs.driven()
    methods = [method for method in targets.methods if method.kind == MethodKind.AGENT] or targets.methods
    copies = write(Run, [_run(model, random.choice(methods), targets.skewed_version(random)) for _ in range(count)])
    kept = list(Candidate.objects.filter(run=model))
    opinions = list(Opinion.objects.filter(run=model))
    for run in copies:
        fresh = write(Candidate, [_copied(item, run=run) for item in kept])
        own = {old.pk: new for old, new in zip(kept, fresh, strict=True)}
        write(Opinion, [_copied(item, run=run, candidate=own[item.candidate_id]) for item in opinions])
    events = list(RunEvent.objects.filter(run=model))
    write(RunEvent, [_copied(event, run=run) for run in copies for event in events])
    return {"run": str(model.code), "other_run": str(copies[0].code), "candidate": kept[0].key}


def _run(model: Run, method: Method, version: TaskVersion) -> Run:
    spent = {"usd": 1.25, "input_tokens": 210_000, "output_tokens": 30_000, "judgings": 12, "judging_s": 400.0}
    run: Run = _copied(model, method=method, task_version=version, spent=spent)
    run.code = Run._meta.get_field("code").get_default()
    return run


def _copied(row: Any, **columns: Any) -> Any:
    """A new row with the values of another."""
    values = {targets.attname: getattr(row, targets.attname) for targets in row._meta.concrete_fields}
    values.pop(row._meta.pk.attname)
    fresh = type(row)(**values)
    for name, value in columns.items():
        setattr(fresh, name, value)
    return fresh


def main(submissions: int, clock: Callable[[], datetime] = timezone.now) -> None:
    started = clock()
    names = fill(Size(submissions), Random(SEED))  # noqa: S311 - data, not secrets
    statistics_gather()  # as housekeeping does every hour
    print(json.dumps(names | {"filled_s": (clock() - started).total_seconds()}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
