"""The preview of a link to an agent run: meta tags and a picture with the best kernel that it has found.

Does NOT show a score of what is not public now, is under review or was invalidated by staff.
"""

import uuid

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from benchmarks.boards.confirmations import no_open_gate
from benchmarks.harness import SpeedupEstimate
from benchmarks.models import Evaluation, Submission
from benchmarks.states import Moderation
from benchmarks.views.parts.preview_image import LinkPreview
from benchmarks.views.previews import picture_of, score_of, times_of, timing_of

from .. import selectors
from ..models import Candidate, Run


def run_picture(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    """The general picture for a run that is hidden or does not exist."""
    run = selectors.runs().filter(code=code).first()
    return picture_of(preview_of_run(run) if run else None)


def preview_of_run(run: Run) -> LinkPreview | None:
    """None for a hidden run."""
    if run.hidden:
        return None
    best = _best(run)
    counts = f"{run.judged_count} of {run.candidate_count} candidates judged"
    facts = (f"by {run.owner.get_username() if run.owner else 'kbench'}", run.proposer, counts)
    trust = ("best kernel", *timing_of(best, best), f"rule set {best.ruleset.name}") if best else ()
    return LinkPreview(
        title=f"Agent run: {run.task_version.task.name} on {run.device_kind.slug}",
        verdict="no accepted kernel yet" if run.best_score is None else "best kernel not shown",
        image=reverse("run-picture", args=[run.code]),
        facts=(*trust, *facts),
        score=_score(run, best) if best else None,
        times=times_of(best) if best else (),
    )


def _score(run: Run, best: Evaluation) -> SpeedupEstimate | None:
    """That of the run, which is pooled if the best was judged again."""
    row = Candidate.objects.filter(run=run.pk, key=run.best_key, judgings__gt=1).first()
    if row is None or row.score is None or row.score_lo is None or row.score_hi is None:
        return score_of(best)
    return SpeedupEstimate(row.score, row.score_lo, row.score_hi)


def _best(run: Run) -> Evaluation | None:
    row = Candidate.objects.filter(run=run.pk, key=run.best_key, withheld=False).only("ticket").first()
    if row is None or not row.ticket:
        return None
    public = Submission.objects.published().filter(moderation=Moderation.OK).values("pk")
    rows = Evaluation.objects.filter(no_open_gate(), code=row.ticket, submission__in=public, score__isnull=False)
    return rows.select_related("ruleset").defer("report", "ruleset__text").first()
