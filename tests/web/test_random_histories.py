"""Rows of boards after random histories are those that the boards get when they are written anew.

A row that depended on what was judged, shown, deleted or decided first could be chosen by whoever arranges the order.
"""

import random
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from benchmarks.accounts import ownership
from benchmarks.boards import standings
from benchmarks.harness import Source, Verdict, source_key, timing_revision
from benchmarks.models import CodeBlob, DeviceKind, Evaluation, Method, RuleSet, Standing, Submission, TaskVersion
from benchmarks.moderation import decisions
from benchmarks.states import ActionKind, EvaluationReason, Priority, State, Visibility

from . import factories
from .test_bounds import enter, replayed
from .test_connected import compiled, private, wrong
from .test_timing_revisions import SAME, by, earlier

SEEDS, STEPS = range(6), 30
LANGUAGES = ("cuda", "cuda", "triton", "helion", "python")  # triton and helion read a text alike
DECISIONS = (ActionKind.CONFIRM, ActionKind.CONFIRM, ActionKind.REOPEN, ActionKind.INVALIDATE, ActionKind.RESTORE)
REASONS = (*(EvaluationReason.INITIAL,) * 8, EvaluationReason.REJUDGE, EvaluationReason.AUDIT, EvaluationReason.QUICK)


@dataclass
class Site:
    """What happens on a site with few people, few programs and four boards of two versions of a task."""

    chance: random.Random
    people: list[User]
    staff: User
    methods: list[Method]
    kinds: list[DeviceKind]
    versions: list[TaskVersion]
    often: tuple[int, ...] = (12, 2, 4, 2, 5, 1)
    ruleset: RuleSet = field(default_factory=lambda: RuleSet.objects.get(name="rk-2"))

    def act(self) -> str:
        acts = dict(
            zip((self.judge, self.compile, self.show, self.delete, self.decide, self.leave), self.often, strict=True)
        )
        submissions = list(Submission.objects.order_by("pk"))
        act = self.chance.choices(list(acts), list(acts.values()))[0] if submissions else self.judge
        try:
            return str(act() if act in (self.judge, self.compile, self.leave) else act(self.chance.choice(submissions)))
        except (ownership.Refused, decisions.Refused) as error:
            return f"refused: {error}"

    def judge(self) -> str:
        """The end of a judging, as a report writes it. Some wait first, and staff may decide about them meanwhile."""
        waiting = list(Evaluation.objects.filter(state=State.QUEUED).order_by("pk"))
        row = self.chance.choice(waiting) if waiting and self.chance.random() < 0.5 else self._queued()
        if self.chance.random() < 0.2:
            return f"{row.submission.owner} waits"
        ending = {"state": State.DONE, "finished": timezone.now(), "object_key": self._code(row)}
        Evaluation.objects.filter(pk=row.pk).update(**ending, **self._ending())
        stored = Evaluation.objects.select_related("submission__method", "task_version__task", "device_kind")
        row = stored.get(pk=row.pk)
        standings.standings_update(row)
        return f"{row.submission.owner} {row.submission.visibility} {row.verdict} {row.score}"

    def compile(self) -> str:
        """Its code is known before it is judged, and some are cancelled then."""
        row = self._queued()
        code = self._code(row)
        is_cancelled = self.chance.random() < 0.5
        ending = {"state": State.CANCELLED, "finished": timezone.now()} if is_cancelled else {}
        Evaluation.objects.filter(pk=row.pk).update(object_key=code)
        stored = Evaluation.objects.select_related("submission__method", "task_version__task", "device_kind")
        standings.decision_follows(stored.get(pk=row.pk))
        Evaluation.objects.filter(pk=row.pk).update(**ending)
        return f"{row.submission.owner} compiled {code[:1]} {ending.get('state', '')}"

    def _code(self, row: Evaluation) -> str:
        """Some is compiled to the same on all devices, most is not."""
        on_device = f"{self.kinds.index(row.device_kind)}"
        return self.chance.choice(("", "a" * 64, on_device * 64, on_device * 64, row.submission.blob_id))

    def _queued(self) -> Evaluation:
        submission, now = self._submission(), timezone.now()
        return Evaluation.objects.create(
            submission=submission,
            task_version=self.chance.choice(self.versions),
            device_kind=self.chance.choice(self.kinds),
            ruleset=self.ruleset,
            queued=now,
            claimed=now,
            reason_text="so it ended",
        )

    def _submission(self) -> Submission:
        language, owner = self.chance.choice(LANGUAGES), self.chance.choice([*self.people, *self.people, None])
        text = f"{'//' if language == 'cuda' else '#'} {self.chance.randrange(3)}\nx{self.chance.randrange(3)} = 1;\n"
        blob, _ = CodeBlob.objects.get_or_create(
            sha256=Source(text, language).sha256, defaults={"text": text, "size_bytes": len(text), "line_count": 2}
        )
        made = list(Submission.objects.filter(owner=owner, blob=blob, language=language).order_by("pk"))
        if made and owner and self.chance.random() < 0.4:
            return self.chance.choice(made)
        return Submission.objects.create(
            task_version=factories.version(),
            method=self.chance.choice(self.methods),
            owner=owner,
            blob=blob,
            language=language,
            source_key=source_key(Source(text, language)),
            visibility=self.chance.choice((*(Visibility.PUBLIC,) * 4, *Visibility)) if owner else Visibility.PUBLIC,
        )

    def _ending(self) -> dict[str, Any]:
        reason = self.chance.choice(REASONS)
        asked = {"reason": reason, "priority": Priority.REJUDGE if reason == EvaluationReason.REJUDGE else 1}
        if self.chance.random() < 0.1:
            refused = self.chance.choice((Verdict.INCORRECT_VALUE, Verdict.COMPILE_ERROR))
            return {**asked, "verdict": refused}
        if reason == EvaluationReason.QUICK:
            return {**asked, "verdict": Verdict.PASS}
        score, is_gated = self.chance.choice((1.2, 2.0, 2.0, 2.0, 3.0)), self.chance.random() < 0.1
        gates = [{"code": self.chance.choice(("one", "two")), "text": "faster than possible"}] if is_gated else []
        return asked | {
            "verdict": Verdict.PASS,
            "score": score + self.chance.random() * 0.05,
            "score_lo": score - self.chance.choice((0.02, 0.4)),
            "score_hi": score + 0.07,
            "worst_config": "x",
            "timing_trust": self.chance.choice(("replayed", "replayed", "bounded", "audited")),
            "timing_revision": timing_revision("cuda") - self.chance.choice((0, 0, 0, 1)),
            "conditions": self.chance.choice(("", "one", "two")),
            "gated": is_gated,
            "report": {"gates": gates},
        }

    def show(self, submission: Submission) -> str:
        if submission.owner_id is None:
            return "nobody's"
        wanted = self.chance.choice(Visibility.values)
        ownership.visibility_change(submission, Visibility(wanted))
        return f"{submission.pk} {wanted}"

    def delete(self, submission: Submission) -> str:
        if submission.owner_id is None:
            return "nobody's"
        ownership.submission_delete(submission)
        return f"deleted {submission.pk}"

    def decide(self, submission: Submission) -> str:
        kind = self.chance.choice(DECISIONS)
        decisions.decide(submission, kind, by=self.staff, reason="they say so")
        return f"{kind} {submission.pk}"

    def leave(self) -> str:
        if len(self.people) < 2:
            return "one stays"
        gone = self.people.pop()
        ownership.account_delete(gone, keep_submissions=self.chance.random() < 0.7)
        return "left"


def rows() -> dict[tuple[Any, ...], dict[str, Any]]:
    """All figures of all rows, by board and holder."""
    columns = [item.attname for item in Standing._meta.concrete_fields if item.name != "id"]
    named = Standing.objects.values(*columns)
    return {(row["task_version_id"], row["device_kind_id"], row["holder"]): row for row in named}


def written_anew(kinds: list[DeviceKind]) -> dict[tuple[Any, ...], dict[str, Any]]:
    Standing.objects.all().delete()  # or rows of holders that have nothing on a board any more would stay
    for version, kind in product(TaskVersion.objects.filter(task=factories.version().task_id), kinds):
        accepted = Evaluation.objects.full().filter(verdict=Verdict.PASS, device_kind=kind, task_version=version)
        if found := list(accepted.select_related("submission__method", "task_version__task")):
            standings.board_renew(found)
    return rows()


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_do_not_depend_on_what_happened_first(seed: int) -> None:
    chance = random.Random(seed)
    methods = [Method.objects.get(slug="human")] * 3 + [Method.objects.create(slug="agent-x", title="X", kind="agent")]
    people = [factories.user(f"person{number}") for number in range(chance.choice((2, 3, 5)))]
    kinds = [factories.gpu_kind(), DeviceKind.objects.create(slug="other-gpu", title="Other", device_class="cuda")]
    version = factories.version()
    earlier_one = {"number": 99, "content_sha256": "f" * 64, "definition": version.definition, "reference_source": ""}
    versions = [version, version, TaskVersion.objects.create(task=version.task, status="retired", **earlier_one)]
    site, history = Site(chance, people, factories.user("sam"), methods, kinds, versions), []
    for _ in range(STEPS):
        history.append(site.act())
        before = rows()
        assert before == written_anew(kinds), history


@pytest.mark.parametrize("seed", [1, 108])  # 108 invalidates before a judging connects two programs
def test_decisions_reach_the_same_rows_whatever_connects_programs_first(seed: int) -> None:
    """Of few programs most are compiled to other code on each device, and staff invalidate many of them."""
    chance = random.Random(seed)
    methods, people = [Method.objects.get(slug="human")], [factories.user("ann"), factories.user("ben")]
    kinds = [factories.gpu_kind(), DeviceKind.objects.create(slug="other-gpu", title="Other", device_class="cuda")]
    site = Site(chance, people, factories.user("sam"), methods, kinds, [factories.version()], (16, 1, 0, 1, 3, 0))
    history = []
    for _ in range(STEPS):
        history.append(site.act())
        before = rows()
        assert before == written_anew(kinds), history


def test_a_row_does_not_depend_on_the_order_of_judgings_in_two_languages() -> None:
    ann, text = factories.user("ann"), "import triton\n"
    refused = {"text": text, "language": "helion", "visibility": Visibility.PRIVATE}
    factories.judged_on_gpu(wrong(), owner=factories.user("cy"), **refused)
    factories.judged_on_gpu(earlier(replayed(2.2)), owner=ann, text=text, language="triton")
    factories.judged_on_gpu(replayed(2.2), owner=ann, text=text, language="helion")
    before = rows()
    assert before == written_anew([factories.gpu_kind()])


def test_when_it_was_verified_follows_what_connects_two_programs() -> None:
    old = compiled(enter("olga", replayed(1.5), "int x;"), "a" * 64)
    ownership.visibility_change(old.submission, Visibility.PRIVATE)
    compiled(enter("olga", replayed(1.5), "int y;"), "b" * 64)
    compiled(private("olga", replayed(1.5), "int x;"), "b" * 64)
    before = rows()
    assert before == written_anew([factories.gpu_kind()])


def test_a_clean_submission_of_a_text_stands_beside_one_that_is_in_question(staff: User) -> None:
    """Staff have seen the earlier submission before they invalidate a copy; the later one came after that."""
    seen = enter("olga", replayed(2.0), SAME)
    copy = enter("eve", replayed(2.0), SAME)
    decisions.decide(copy.submission, ActionKind.INVALIDATE, by=staff, reason="a copy")
    assert not by("olga").under_review
    enter("olga", replayed(2.1), SAME)
    assert (by("olga").under_review, by("olga").evaluation) == (False, seen)
    before = rows()
    assert before == written_anew([factories.gpu_kind()])


def test_a_row_does_not_depend_on_when_its_better_program_was_judged() -> None:
    """Most of what the other program counts rests on a private judging, of which `_has_another` knows nothing."""
    private("olga", replayed(1.85), "int q;")
    enter("olga", replayed(1.50), "int q;")
    enter("olga", replayed(1.80), "int p;")
    enter("olga", replayed(1.46), "int p;")
    before = rows()
    assert before == written_anew([factories.gpu_kind()])
