"""A small site full of hostile text: everything that a person, a compiler or a language model can write says MARK.

Who meets it: somebody without an account, a stranger, the owner of what is private, staff. Does NOT know addresses.
"""

import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.test import Client

from agents.models import Candidate, Opinion, Run, RunEvent
from benchmarks import comments, news, services, switches, teams
from benchmarks.accounts import tokens
from benchmarks.emulator import EmulatorFinding, EmulatorReport, EmulatorVerdict
from benchmarks.harness import Flag, StageReport, Verdict
from benchmarks.judgings import checks, profiles
from benchmarks.models import (
    ApiToken,
    Comment,
    Contest,
    EmulatorCheck,
    Evaluation,
    KernelRequest,
    Method,
    NewsPost,
    Notification,
    NotificationChoice,
    RecordedEntry,
    RejudgeBatch,
    RuleSet,
    Submission,
    Team,
    TeamMembership,
)
from benchmarks.moderation import decisions, rejudging
from benchmarks.recorded import loading
from benchmarks.requests import examining
from benchmarks.requests.asking import request_decide, request_vote
from benchmarks.states import ActionKind, Switch
from tests import asking, profiled
from tests.agents import factories as runs
from tests.recorded import bundle_file
from tests.web import contests, factories

TAG = "<kbx"  # what must never reach a page as it is
MARK = f"""{TAG} onload=alert(1)>'";--></script>{{{{7*7}}}}\x1b[31m\x00\u202e"""
TITLE = f"{TAG} onload=alert(1)>'\"</title>"  # where a form refuses control characters
READERS = ("anonymous", "stranger", "owner", "staff")


@dataclass
class World:
    """The rows that addresses name."""

    owner: Any
    stranger: Any
    staff: Any
    public: Evaluation
    private: Evaluation
    failed: Evaluation
    hidden: Evaluation
    batch: RejudgeBatch
    recorded: RecordedEntry
    run: Run
    token: Any
    contest: Contest
    check: EmulatorCheck
    team: Team  # of the owner; nothing public was made for it
    comment: Comment  # of the owner, on the submission that was hidden
    request: KernelRequest  # of the owner, and not examined yet
    draft_post: NewsPost

    @cached_property
    def candidate(self) -> Candidate:
        return Candidate.objects.filter(run=self.run).order_by("pk")[0]

    def rows_of_owner(self) -> dict[str, list[Any]]:
        """What belongs to the owner, as it stands in the tables."""
        mine = {
            "account": get_user_model().objects.filter(pk=self.owner.pk),
            "tokens": ApiToken.objects.filter(owner=self.owner),
            "submissions": Submission.objects.filter(owner=self.owner),
            "evaluations": Evaluation.objects.filter(submission__owner=self.owner),
            "runs": Run.objects.filter(owner=self.owner),
            "notifications": Notification.objects.filter(owner=self.owner),
            "choices": NotificationChoice.objects.filter(owner=self.owner),
            "memberships": TeamMembership.objects.filter(team__memberships__account=self.owner),
            "comments": Comment.objects.filter(author=self.owner),
            "checks": EmulatorCheck.objects.filter(owner=self.owner),
            "requests": KernelRequest.objects.filter(owner=self.owner),
        }
        return {name: list(rows.order_by("pk").values()) for name, rows in mine.items()}

    def client(self, reader: str, **options: Any) -> Client:
        client = Client(**options)
        if reader != "anonymous":
            client.force_login(getattr(self, reader))
        return client


def build() -> World:
    owner, stranger = factories.user("olga" + TITLE[:20]), factories.user("stefan")
    staff = get_user_model().objects.create_superuser("staff", password="staff-has-a-long-password")
    Method.objects.filter(slug="human").update(title=TITLE[:60], description=TITLE)
    team, shown = (teams.team_create(f"{TITLE[:20]}{number}", by=owner) for number in (1, 2))
    world = World(
        owner,
        stranger,
        staff,
        public=factories.judged(_passing(), owner=owner, title=TITLE[:80], text=_source("public"), team=shown),
        failed=factories.judged(_failing(), owner=owner, title=TITLE[:80], text=_source("failed")),
        hidden=_hidden(owner, staff),
        batch=_batch(staff),
        private=factories.queued(
            owner=owner, title=TITLE[:80], text=_source("private"), visibility="private", team=team
        ),
        team=team,
        recorded=_recorded(),
        run=runs.driven(runs.started(owner)),
        token=tokens.token_create(owner, TITLE[:80]).row,
        contest=contests.draft("draft", title=TITLE[:80], rules_text=TITLE),
        check=_check(owner),
        comment=Comment.objects.get(author=owner),
        request=_requests(owner, stranger, staff),
        draft_post=news.post_save(TITLE[:80], TITLE, shown=False, by=staff),
    )
    _profile(world.public)
    news.post_save(TITLE[:80], TITLE, shown=True, by=staff)
    written = comments.comment_create(world.public.submission, by=stranger, text=TITLE)
    comments.comment_report(written, by=owner, text=TITLE)
    contests.running_with(owner, slug="running", title=TITLE[:80], rules_text=TITLE)
    _spoil_texts_of(world.run)
    decisions.report(world.public.submission, by=stranger, text=TITLE)
    factories.worker("compile", state="quarantined", state_text=TITLE, isolation_strong=False, isolation_text=TITLE)
    switches.switch_set(Switch.BANNER, on=True, message=TITLE)
    return world


def _check(owner: Any) -> EmulatorCheck:
    """Every text of its report is as hostile as a source can make it."""
    finding = EmulatorFinding(MARK, MARK, MARK, MARK, 1, 2, (0, 0, 0), (1, 0, 0), MARK, 3, 0, 1)
    report = EmulatorReport(EmulatorVerdict.WRONG, MARK, 3, (finding,), (MARK,), (MARK,))
    services.check_create(version=factories.version(), text=_source("check"), owner=owner, payer=None)
    holding = checks.check_claim()
    assert holding is not None
    assert holding.record(report)
    return EmulatorCheck.objects.get()


def _requests(owner: Any, stranger: Any, staff: Any) -> KernelRequest:
    """A public one of a stranger, one that was hidden, a refused one, and one that nobody but the owner may see."""
    words = {"title": TITLE[:80], "reason": TITLE, "licence": TITLE}
    public = asking.opened(stranger, **words)
    request_vote(public, by=owner, wanted=True)
    hidden = asking.opened(owner, **words)
    request_decide(hidden, ActionKind.HIDE, by=staff, reason=TITLE, note=TITLE)
    asking.posted(owner, text=f"class Model({TITLE}", **words)
    refused = asking.claimed()
    refused.record(*examining.examine_files(refused.row))
    return asking.posted(owner, text=f"{asking.MODEL}# private\n", **words)


def _profile(evaluation: Evaluation) -> None:
    """Every text that a submission could have written into it."""
    services.profile_request(evaluation, None)
    holding = profiles.profile_claim(evaluation.device_kind.slug)
    assert holding is not None
    assert holding.record(profiled.profile(MARK))


def _hidden(owner: Any, staff: Any) -> Evaluation:
    evaluation = factories.judged(_passing(), owner=owner, title=TITLE[:80], text=_source("hidden"))
    comments.comment_create(evaluation.submission, by=owner, text=TITLE)
    decisions.decide(evaluation.submission, ActionKind.HIDE, by=staff, reason=TITLE, note=TITLE)
    return evaluation


def _batch(staff: Any) -> RejudgeBatch:
    rules = RuleSet.objects.get(name="rk-2")
    count = rejudging.preview(rejudging.Wanted(), rules).count
    return rejudging.batch_create(rejudging.Wanted(), rules, by=staff, reason=TITLE, expected=count)


def _source(name: str) -> str:
    """Each another program, not only another text."""
    return f'// {name} {MARK.replace(chr(0), "")}\nstatic const char* const name = "{name}";\n{factories.SOURCE}'


def _passing() -> Any:
    return factories.passing(flags=(Flag("library-call", TITLE, 3),), environment={"torch": TITLE, "gpu": TITLE})


def _failing() -> Any:
    log = MARK.replace("\x00", "") * 3
    stages = (StageReport("static", 0.001), StageReport("compile", 2.0, 1, log))
    return factories.report(Verdict.COMPILE_ERROR, TITLE, stages=stages, flags=(Flag("x", TITLE, 1),))


def _spoil_texts_of(run: Run) -> None:
    """Every word in tables and log of a run that a language model or a failing tool might have written."""
    for event in RunEvent.objects.filter(run=run):
        RunEvent.objects.filter(pk=event.pk).update(payload=_spoilt(event.payload))
    Candidate.objects.filter(run=run).update(
        name=TITLE, hint=TITLE, thought=TITLE, drop_text=TITLE, verdict_text=TITLE, arm=TITLE[:100]
    )
    Opinion.objects.filter(run=run).update(reasons=[TITLE], fault=TITLE[:60])
    Run.objects.filter(pk=run.pk).update(reason_text=TITLE)


FREE_TEXTS = ("reason", "reasons", "text", "name", "thought", "hint", "message", "error")


def _spoilt(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: TITLE if key in FREE_TEXTS else _spoilt(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_spoilt(item) for item in value]
    return value


def _recorded() -> RecordedEntry:
    """A bundle of somebody hostile: each text that the format allows to be free."""
    with tempfile.TemporaryDirectory() as folder:
        path = bundle_file(
            Path(folder) / "hostile.jsonl",
            {"title": TITLE, "about": TITLE, "device_title": TITLE, "machine": {"cpu": TITLE}},
            [{"by": TITLE, "title": TITLE, "source": _source("recorded"), "remarks": [TITLE], "isolation": TITLE,
              "environment": {"gpu": TITLE, "odd": TITLE}, "method": {"slug": "m", "title": TITLE, "kind": "agent"}}],
        )  # fmt: skip
        loading.load_bundle(path)
    return RecordedEntry.objects.select_related("bundle").get()
