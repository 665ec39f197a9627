"""External runs: an agent outside the site proposes kernels, the site judges them and keeps the log.

The log has the events of the site's own runs, so pages, replay and comparison are the same. No worker drives such a
run: `send` and `close` are requests of the agent, and `look` writes down what has happened since (kernels that were
judged, time that has passed, what the owner wants). Does NOT wait for anything; `tend` looks at every run every few
seconds.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.utils import timezone

from benchmarks import quotas
from benchmarks.catalogue import folders
from benchmarks.harness import Source, default_rules
from benchmarks.judgings import moves
from benchmarks.models import Evaluation
from benchmarks.states import FINISHED
from benchmarks.submissions.checking import checked

from .. import services
from ..evolve import book as books
from ..evolve.archive import cell_of
from ..evolve.book import Book
from ..evolve.budget import Cost
from ..evolve.events import Draft
from ..evolve.model import CandidateView, JudgeResult, NoProposal, Proposal
from ..evolve.proposing import cleaned, readable, refused, unusable
from ..evolve.slots import announcements, result_to_json
from ..evolve.state import BrokenLog
from ..models import Run, RunEvent
from ..proposals import EXTERNAL
from ..states import CandidateState, RunStatus, Wish
from .evaluator import result_of, submitted

T = TypeVar("T")
logger = logging.getLogger(__name__)
CANDIDATES_MAX = 1_000
IN_FLIGHT_MAX = 8
REFUSED_PER_DAY_MAX = 300  # candidates of one account: their texts are kept, though no quota counts what is not judged
_DAY_S = 86_400
PROMPT_CHARS_MAX = 20_000
LOOK_EVERY_S = 10.0  # how often run time is counted, in runs that have a cap on it
STEP_MAX_S = 60.0  # of run time that one look can count, so that time in which the site was down does not count
_WALL = "wall"
_WITHDRAWN = "Withdrawn by the run that submitted it."


class SendRefused(Exception):
    """A candidate that cannot be taken now. `code` is for the program, the text for the person."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Sent:
    """A candidate as the agent sends it. The same `key` means the same candidate; `cost` is what the agent reports."""

    proposal: Proposal
    prompt: str = ""
    generation: int | None = None
    island: int = 0
    model: str = ""
    cost: Cost = field(default_factory=Cost)
    key: str = ""


def send(run: Run, sent: Sent) -> str:
    """The name of the candidate; it is queued for judging or was refused with a reason.

    It counts for the quotas of the run's owner. Raises SendRefused, OverQuota, Refused while submissions are paused,
    and Busy.
    """
    look(run)
    if earlier := _earlier(run, sent.key):
        return earlier
    _demand_open(run)  # before the check, which takes a process of its own
    problem = _problem_of(run, sent.proposal)
    key = _written(run, lambda writing: _earlier(run, sent.key) or writing.take(sent, problem))
    if key is None:
        raise SendRefused("run-ended", run.reason_text)
    return key


def _demand_unfinished(run: Run) -> None:
    if run.state in (RunStatus.STOPPING, RunStatus.FINISHED):
        raise SendRefused("run-ended", "The run has ended, or is about to. Open another one.")


def _demand_open(run: Run) -> None:
    """Checks the rows of the database, which agree with the log."""
    _demand_unfinished(run)
    if run.state == RunStatus.PAUSED:
        raise SendRefused("run-paused", "The run is paused. Its owner or staff can resume it.")
    if run.candidate_count >= CANDIDATES_MAX:
        raise SendRefused("run-full", f"The run has {CANDIDATES_MAX} candidates, which is the limit. Close it.")
    if run.candidates.filter(state=CandidateState.QUEUED).count() >= IN_FLIGHT_MAX:
        raise SendRefused("too-many-open", f"{IN_FLIGHT_MAX} candidates are being judged. Wait for one of them.")
    since_s = timezone.now().timestamp() - _DAY_S
    unjudged = RunEvent.objects.filter(type="proposal.rejected", at_s__gte=since_s)
    if unjudged.filter(run__owner=run.owner_id, run__proposer=EXTERNAL).count() >= REFUSED_PER_DAY_MAX:
        what = f"{REFUSED_PER_DAY_MAX} of your candidates were refused within 24 hours, which is the limit."
        raise SendRefused("too-many-refused", f"{what} Try again tomorrow.")


def _problem_of(run: Run, proposal: Proposal) -> str | None:
    """The problem found by the static check. Raises SendRefused for a text that cannot be a kernel, and Busy."""
    rules = default_rules(settings.KBENCH_RULESET)
    bad = unusable(proposal, run.language, rules.source.max_bytes)
    if bad is not None:
        raise SendRefused("source-too-large" if bad.reason == "too_long" else "source-refused", bad.text)
    task = folders.shown_spec(run.task_version)
    return checked(Source(proposal.source, proposal.language), task, rules).problem


def close(run: Run, text: str) -> None:
    """Takes no more candidates; the run ends when all open judgings have ended. Raises SendRefused."""
    _demand_unfinished(run)
    said = {"reason": "closed", "text": readable(text) or "The agent has closed the run."}
    _written(run, lambda writing: writing.book.commit(Draft("run.stopping", None, said)))
    look(run)


def steer(run: Run, wish: Wish, by: User | AnonymousUser) -> None:
    """Pauses, resumes or stops a run; an external run at once. Raises Refused."""
    services.run_wish(run, wish, _role(run, by))
    if run.proposer == EXTERNAL:
        run.refresh_from_db()
        look(run)


def _role(run: Run, by: User | AnonymousUser) -> str:
    """In place of a name, which nobody could take out of the log when the account is deleted."""
    if by.is_authenticated and by.pk == run.owner_id:
        return "its owner"
    return "staff" if by.is_staff else "a visitor"


def tend() -> None:
    """Look at every external run that has not ended."""
    for run in Run.objects.filter(proposer=EXTERNAL).exclude(state=RunStatus.FINISHED):
        try:
            with suppress(services.Refused):  # somebody else is writing its log
                look(run)
        except Exception:  # whatever is wrong with one run, the others must be looked at
            logger.exception("external run %s could not be updated", run)


def look(run: Run) -> None:
    """Writes down what has happened since the last look. The log is read only if there is anything to write."""
    now = timezone.now()
    if run.is_finished or not _is_due(run, now):
        return

    def written(writing: _Writing) -> None:
        writing.look(now)
        Run.objects.filter(pk=run.pk).update(heartbeat=now)

    _written(run, written)


def _written(run: Run, write: "Callable[[_Writing], T]") -> T | None:
    """Calls `write` and returns its result. If the log cannot be folded, ends the run and returns None."""
    try:
        with services.log_of(run) as log:
            return write(_Writing(run, Book(log)))
    except BrokenLog as error:
        logger.exception("the log of external run %s is broken; it is ended", run)
        _end_broken(run, str(error))
        return None


def _end_broken(run: Run, what: str) -> None:
    """Ends a run whose log cannot be folded: cancels what is being judged, and counts what was reserved as spent."""
    text = f"Our side failed: the log of this run cannot be continued. {what}"
    with services.log_of(run) as log:
        run.refresh_from_db()
        tickets = list(run.candidates.filter(state=CandidateState.QUEUED).values_list("ticket", flat=True))
        waiting = list(Evaluation.objects.filter(code__in=tickets))
        _hold(waiting)
        for evaluation in waiting:
            moves.evaluation_cancel(evaluation, _WITHDRAWN)
        settled = [books.settled(lease, None, Cost.from_json(cost)) for lease, cost in run.leases.items()]
        ended = Draft("run.finished", None, {"reason": "broken", "text": text})
        log.append([Draft("error", None, {"text": text}), *settled, ended])


def _hold(evaluations: Sequence[Evaluation]) -> None:
    """All of them before the first is cancelled, which writes about its payer."""
    rows = Evaluation.objects.filter(pk__in=[item.pk for item in evaluations])
    list(rows.select_for_update(no_key=True).order_by("pk").values_list("pk"))


def _is_due(run: Run, now: datetime) -> bool:
    if run.state == RunStatus.WAITING or (run.state == RunStatus.RUNNING and run.wish != Wish.GO):
        return True
    tickets = list(run.candidates.filter(state=CandidateState.QUEUED).values_list("ticket", flat=True))
    waited = Evaluation.objects.filter(code__in=tickets).exclude(state__in=FINISHED).count()
    if waited < len(tickets) or (run.state == RunStatus.STOPPING and not tickets):
        return True
    if run.state == RunStatus.PAUSED:
        return not tickets and _is_idle(run, now)
    if run.state != RunStatus.RUNNING:
        return False
    timed = run.caps.get("wall_s") is not None
    since_look_s = (now - (run.heartbeat or run.created)).total_seconds()
    return (timed and since_look_s >= LOOK_EVERY_S) or (not tickets and _is_idle(run, now))


def _is_idle(run: Run, now: datetime) -> bool:
    last = run.events.exclude(candidate="", type__startswith="budget.").order_by("-seq").values_list("at_s").first()
    return last is None or now.timestamp() - last[0] >= settings.KBENCH_EXTERNAL_IDLE_S


def _earlier(run: Run, key: str) -> str | None:
    """The candidate that was sent with this key before."""
    if not key:
        return None
    found = run.events.filter(type="proposal.requested", payload__key=key).values_list("candidate", flat=True)
    return found.first()


@dataclass(frozen=True)
class _Writing:
    """The log of a run, opened to write to it once."""

    run: Run
    book: Book

    # --- what the agent sends ---

    def take(self, sent: Sent, problem: str | None) -> str:
        self.run.refresh_from_db()  # it may have changed during the check
        _demand_open(self.run)
        self._demand_island(sent.island)
        generation = self._generation(sent)
        known = self.book.state.archive.candidates.values()
        slot = 1 + max((item.slot for item in known if item.generation == generation), default=-1)
        key = f"{generation}-{slot}"
        self._demand_room(sent.cost + self._judging)
        drafts = [*self._opening(generation), *self._received(sent, key, generation, slot)]
        self._demand_foldable(key, drafts)
        self.book.commit(*drafts)
        candidate = self.book.state.archive.candidates[key]
        refusal = self._refusal(candidate, problem)
        if refusal is not None:
            self.book.commit(*refused(self.book, candidate, refusal))
            return key
        payer = quotas.payer_of(self.run.owner, "") if self.run.owner is not None else None
        code = submitted(self.run, key, sent.proposal.source, sent.proposal.language, payer=payer)
        self.book.commit(
            books.reserved(books.judge_lease(key), key, self._judging),
            Draft("evaluation.submitted", key, {"key": key, "ticket": code}),
        )
        return key

    def _demand_island(self, island: int) -> None:
        count = self.book.state.config.islands
        if island >= count:
            raise SendRefused("invalid-request", f"island: the run has {count} islands, numbered from 0.")

    def _demand_foldable(self, key: str, drafts: list[Draft]) -> None:
        """Refuses a candidate if the log could not be folded any more after it or after its verdict."""
        passed = {"result": result_to_json(JudgeResult("PASS", "", score=1.0)), "reused_from": None}
        try:
            self.book.rehearse(*drafts, Draft("evaluation.finished", key, passed))
        except BrokenLog as error:
            raise SendRefused("invalid-request", f"The run cannot take this candidate. {error}") from error

    def _demand_room(self, cost: Cost) -> None:
        short = self.book.state.budget.fits(cost)
        if short is not None:
            raise SendRefused("budget-spent", f"This candidate would exceed the run's cap of {short}.")

    def _generation(self, sent: Sent) -> int:
        """The generation named by the agent, or one more than that of its latest parent."""
        known = self.book.state.archive.candidates
        unknown = [name for name in sent.proposal.parents if name not in known]
        if unknown:
            raise SendRefused("unknown-parent", f"The run has no candidate {unknown[0]}.")
        if sent.generation is not None:
            return sent.generation
        return 1 + max((known[name].generation for name in sent.proposal.parents), default=-1)

    def _opening(self, generation: int) -> list[Draft]:
        state = self.book.state
        if state.generations and generation <= state.generations[-1].number:
            return []
        stage = "translate" if state.best is None else "optimise"
        return [Draft("generation.opened", None, {"number": generation, "base_seq": state.seq, "stage": stage})]

    def _received(self, sent: Sent, key: str, generation: int, slot: int) -> list[Draft]:
        proposal = cleaned(sent.proposal, self.book.state.archive.candidates)
        place = {"generation": generation, "slot": slot, "island": sent.island}
        parents = list(proposal.parents)
        stage = "translate" if self.book.state.best is None else "optimise"
        requested = {**place, "stage": stage, "parents": parents, "probabilities": {}, "key": sent.key}
        received = {
            **place,
            "source_sha256": self.book.log.put_source(proposal.source),
            "language": proposal.language,
            "name": proposal.name,
            "thought": proposal.thought,
            "prompt": readable(sent.prompt)[:PROMPT_CHARS_MAX],
            "params": None,
            "template": None,
            "parents": parents,
            "operator": proposal.operator,
            "arm": proposal.arm,
            "cell": list(cell_of(proposal)),
        }
        return [
            Draft("proposal.requested", key, requested),
            *self._paid(sent, key),
            Draft("proposal.received", key, received),
        ]

    def _paid(self, sent: Sent, key: str) -> list[Draft]:
        """The cost of the proposal as reported by the agent."""
        if sent.cost == Cost():
            return []
        lease, usage = books.propose_lease(key), sent.cost.to_json()
        said = {"role": "propose", "model": sent.model or "unnamed", "usage": usage, "cost_usd": sent.cost.usd}
        return [
            books.reserved(lease, key, sent.cost),
            Draft("llm.usage", key, said),
            books.settled(lease, key, sent.cost),
        ]

    def _refusal(self, candidate: CandidateView, problem: str | None) -> NoProposal | None:
        if problem:
            return NoProposal("wrong_task", problem)
        others = self.book.state.archive.candidates.values()
        same = (item for item in others if item.source_sha256 == candidate.source_sha256 and item.id != candidate.id)
        twin = next((item for item in same if item.result is None or not item.result.ours), None)
        return NoProposal("duplicate", f"the same text as {twin.id}") if twin is not None else None

    # --- what has happened since ---

    def look(self, now: datetime) -> None:
        for candidate, evaluation in self._evaluations():
            if evaluation is None:
                self._finish(candidate, JudgeResult("INTERNAL_ERROR", "Its submission was deleted."))
            elif evaluation.is_finished:
                self._finish(candidate, result_of(evaluation))
        in_time = self._count_time(now)
        status, wish = self.book.state.status, Wish(self.run.wish)
        if wish == Wish.STOP or not in_time:
            self._withdraw(now)
            self._end(*(("budget", "The run has used all of its time.") if not in_time else _STOPPED))
        elif status == "stopping":
            if not self._in_judging():
                self._end("closed", self._last_words())
        elif wish == Wish.PAUSE and (status == "running" or self.run.state == RunStatus.WAITING):
            self.book.commit(Draft("run.paused", None, {"text": "Paused by its owner or staff."}))
        elif wish == Wish.GO and status in ("created", "paused"):
            self.book.commit(Draft("run.resumed" if self.book.state.started else "run.started", None, {}))
        elif not self._in_judging():
            self._end_where_over(now)

    def _end_where_over(self, now: datetime) -> None:
        short = self.book.state.budget.fits(self._judging)
        if short is not None:
            self._end("budget", f"The next candidate would exceed the run's cap of {short}.")
        elif _is_idle(self.run, now):
            minutes = settings.KBENCH_EXTERNAL_IDLE_S / 60
            self._end("idle", f"The agent has not sent a candidate for {minutes:g} minutes.")

    def _count_time(self, now: datetime) -> bool:
        """Settles the run time since the last look; False if nothing is left."""
        budget = self.book.state.budget
        cap = budget.caps.wall_s
        if cap is None or self.book.state.status not in ("running", "stopping"):
            return True
        left_s = max(0.0, cap - budget.spent.wall_s)
        since_s = (now - (self.run.heartbeat or now)).total_seconds()
        passed = Cost(wall_s=min(max(0.0, since_s), STEP_MAX_S, left_s))
        if passed.wall_s:
            self.book.commit(books.reserved(_WALL, None, passed), books.settled(_WALL, None, passed))
        return left_s - passed.wall_s > 0

    def _finish(self, candidate: CandidateView, result: JudgeResult) -> None:
        payload = {"result": result_to_json(result), "reused_from": None}
        finished = Draft("evaluation.finished", candidate.id, payload)
        cost = Cost(judgings=1, judging_s=result.seconds)
        self.book.rehearse(finished)  # `announcements` folds it, too
        news = announcements(self.book, finished)
        self.book.commit(finished, books.settled(books.judge_lease(candidate.id), candidate.id, cost), *news)

    def _withdraw(self, now: datetime) -> None:
        """Withdraws candidates that are being judged; each is charged the time since it was sent.

        They count as what the owner cancels, or a day would have room for as many as runs can be opened and stopped.
        """
        waiting = self._evaluations()
        _hold([item for _, item in waiting if item is not None])
        for candidate, evaluation in waiting:
            spent_s = 0.0
            if evaluation is not None:
                moves.evaluation_cancel(evaluation, _WITHDRAWN, by_author=True)
                spent_s = min(self._judging.judging_s, (now - evaluation.queued).total_seconds())
            cost = Cost(judgings=1, judging_s=spent_s)
            self.book.commit(books.settled(books.judge_lease(candidate.id), candidate.id, cost))

    def _last_words(self) -> str:
        said = self.run.events.filter(type="run.stopping").order_by("-seq").values_list("payload", flat=True).first()
        return str((said or {}).get("text", ""))

    def _end(self, reason: str, text: str) -> None:
        self.book.commit(Draft("run.finished", None, {"reason": reason, "text": text}))

    def _in_judging(self) -> list[CandidateView]:
        return [item for item in self.book.state.archive.candidates.values() if item.state == "judging"]

    def _evaluations(self) -> Sequence[tuple[CandidateView, Evaluation | None]]:
        candidates = self._in_judging()
        tickets = [item.ticket for item in candidates]
        rows = Evaluation.objects.select_related("device_kind").filter(code__in=tickets)
        found = {str(row.code): row for row in rows}
        return [(item, found.get(item.ticket or "")) for item in candidates]

    @property
    def _judging(self) -> Cost:
        return Cost(judgings=1, judging_s=self.book.state.config.judging_bound_s)


_STOPPED = ("stopped", "Stopped by its owner or staff.")
