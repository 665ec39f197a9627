"""One evaluation: live while it runs, permanent afterwards, at the same address.

The page and its live part render the same template, so an update shows the same as a reload. Does NOT
judge access by itself: `selectors.evaluation_for` does.
"""

import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from benchmarks import comments, quotas, selectors, services
from benchmarks.accounts import limits
from benchmarks.boards.accuracy import attach_shares
from benchmarks.forms import CommentForm
from benchmarks.judgings.advice import next_steps
from benchmarks.judgings.waiting import waiting_text
from benchmarks.models import ConfigResult, Evaluation
from benchmarks.states import TaskVersionStatus
from benchmarks.submissions import selectors as submission_selectors
from benchmarks.submissions.languages import suffix_of
from benchmarks.templatetags.whiskers import Axis

from .parts.machine_facts import record
from .parts.sessions import is_by, may_cancel, remember
from .parts.timeline import timeline
from .previews import preview_of_evaluation


def evaluation_detail(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    return evaluation_page(request, selectors.evaluation_for(request.user, code))


def evaluation_page(
    request: HttpRequest, evaluation: Evaluation, comment_form: CommentForm | None = None
) -> HttpResponse:
    """The page; `comment_form` holds a rejected comment with its errors."""
    context = _live_part(request, evaluation)
    if comments.has_comments(evaluation.submission):
        shown = comments.comments_of(evaluation.submission, request.GET.get("page", 1))
        context |= {"comments": shown, "comment_form": comment_form or CommentForm()}
    context["comparable"] = submission_selectors.comparable(request.user, evaluation)
    context["original"] = submission_selectors.original_of(request.user, evaluation)
    context["owned"] = _is_owner(request, evaluation)
    context["preview"] = preview_of_evaluation(evaluation, context["standing"])
    return render(request, "evaluations/detail.html", context)


def evaluation_live(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    evaluation = selectors.evaluation_for(request.user, code)
    return render(request, "evaluations/_live.html", _live_part(request, evaluation))


@require_POST
def evaluation_stop(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    evaluation = selectors.evaluation_for(request.user, code)
    if not may_cancel(request, evaluation):
        messages.error(request, "Only the author can cancel an evaluation, and only if the author requested it.")
    elif not services.evaluation_withdraw(evaluation, by_author=is_by(request, evaluation)):
        messages.warning(request, "The evaluation ended before it could be cancelled.")
    return redirect(evaluation)


@require_POST
def evaluation_audit(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    evaluation = selectors.evaluation_for(request.user, code)
    if not _may_ask_for_audit(request, evaluation):
        messages.error(request, "Only the author or staff can request an audit.")
        return redirect(evaluation)
    try:
        return redirect(services.audit_request(evaluation, by_staff=request.user.is_staff))
    except (services.Refused, quotas.OverQuota) as error:
        messages.warning(request, str(error))
        return redirect(evaluation)


@require_POST
def evaluation_full(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    evaluation = selectors.evaluation_for(request.user, code)
    if not is_by(request, evaluation):
        messages.error(request, "Only the author can submit it for full judging.")
        return redirect(evaluation)
    try:
        judged = services.judge_in_full(evaluation, limits.payer(request))
    except (services.Refused, quotas.OverQuota) as error:
        messages.warning(request, str(error))
        return redirect(evaluation)
    remember(request, judged)
    return redirect(judged)


def evaluation_report(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    evaluation = selectors.evaluation_for(request.user, code)
    response = JsonResponse(evaluation.report or {}, json_dumps_params={"indent": 2})
    response["Content-Disposition"] = f'attachment; filename="kbench-{evaluation.code}.json"'
    return response


def evaluation_source(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    """The bytes as submitted; an attachment, so that no browser runs them."""
    submission = selectors.evaluation_for(request.user, code).submission
    response = HttpResponse(submission.blob.text, content_type="text/plain; charset=utf-8")
    name = f"kernel-{submission.blob.sha256[:12]}.{suffix_of(submission.language)}"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _may_ask_for_audit(request: HttpRequest, evaluation: Evaluation) -> bool:
    return request.user.is_staff or _is_owner(request, evaluation)


def _is_owner(request: HttpRequest, evaluation: Evaluation) -> bool:
    owner = evaluation.submission.owner_id
    return owner is not None and owner == request.user.pk


def _live_part(request: HttpRequest, evaluation: Evaluation) -> dict[str, Any]:
    stages = list(evaluation.stages.all())
    configs = list(evaluation.configs.all())
    waiting, report = waiting_text(evaluation), evaluation.report or {}
    attach_shares(configs, evaluation.task_version.definition, evaluation.device_kind.device_class)
    bounds = [value for row in configs for value in (row.speedup_lo, row.speedup_hi)]
    is_open = evaluation.task_version.status == TaskVersionStatus.ACTIVE  # after that, only staff ask for something
    is_auditable = services.is_auditable(evaluation) and (is_open or request.user.is_staff)
    has_passed_quick = evaluation.is_quick and evaluation.verdict == "PASS"
    return {
        "evaluation": evaluation,
        "task": evaluation.task_version.task,
        "stages": timeline(evaluation, stages, waiting),
        "logs": [stage for stage in stages if stage.log_tail],
        "configs": configs,
        "axis": Axis.over([*bounds, evaluation.score_lo, evaluation.score_hi]),
        **config_columns(configs),
        "report": report,
        "next_steps": next_steps(evaluation, configs),
        "record": record(report.get("environment", {})),
        "explanation": selectors.explanation_of(evaluation),
        "audit": report.get("audit"),
        "auditable": is_auditable and _may_ask_for_audit(request, evaluation),
        "can_be_judged": is_open and has_passed_quick and is_by(request, evaluation),
        "profilable": services.is_profilable(evaluation),
        "history": selectors.evaluation_history(evaluation),
        "standing": selectors.standing_of(evaluation),
        "cancellable": not evaluation.is_finished and may_cancel(request, evaluation),
    }


def config_columns(configs: list[ConfigResult]) -> dict[str, Any]:
    """The columns of the table of configurations, and their number."""
    timed = any(config.kernel_us for config in configs)
    bounded = any(config.bound_us for config in configs)
    roofline = any(config.roofline_fraction for config in configs)
    sol = any(getattr(config, "sol_score", None) is not None for config in configs)  # recorded ones have none
    energy = any(getattr(config, "energy_mj", None) is not None for config in configs)
    timed_columns = 4 + roofline + sol + energy
    columns = 3 + (timed_columns if timed else 0)
    return {
        "timed": timed,
        "bounded": bounded,
        "roofline": roofline,
        "sol": sol,
        "energy": energy,
        "timed_columns": timed_columns,
        "columns": columns,
    }
