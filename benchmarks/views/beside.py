"""The result of a quick check as the submit page shows it, beside the editor.

Does NOT judge access by itself: `selectors.evaluation_for` does.
"""

import uuid
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from benchmarks import harness, selectors
from benchmarks.judgings.advice import next_steps
from benchmarks.judgings.waiting import waiting_text
from benchmarks.models import Evaluation
from benchmarks.templatetags.code import CompilerMessage, compiler_messages

from .parts.sessions import may_cancel
from .parts.timeline import timeline


def evaluation_beside(request: HttpRequest, code: uuid.UUID) -> HttpResponse:
    """204 while it is where the page shows it already, so that nothing is swapped or read out again."""
    evaluation = selectors.evaluation_for(request.user, code)
    if request.GET.get("at") == _moment(evaluation):
        return HttpResponse(status=HTTPStatus.NO_CONTENT)
    return beside_part(request, evaluation)


def beside_part(request: HttpRequest, evaluation: Evaluation) -> HttpResponse:
    stages, configs = list(evaluation.stages.all()), list(evaluation.configs.all())
    active = next((line for line in timeline(evaluation, stages, "") if line.state == "active"), None)
    context = {
        "evaluation": evaluation,
        "moment": _moment(evaluation),
        "waiting": waiting_text(evaluation),
        "active": active,
        "compiler": compile_errors(evaluation),
        "configs": configs,
        "wrong": [config for config in configs if not config.correct],
        "log": next((stage for stage in reversed(stages) if stage.log_tail), None),
        "next_steps": next_steps(evaluation, configs),
        "cancellable": not evaluation.is_finished and may_cancel(request, evaluation),
    }
    return render(request, "tasks/_beside.html", context)


def compile_errors(evaluation: Evaluation) -> list[CompilerMessage]:
    """What the compiler refused in that source; nothing where it compiled."""
    if evaluation.verdict != harness.Verdict.COMPILE_ERROR:
        return []
    log = evaluation.stages.filter(name="compile").values_list("log_tail", flat=True).first()
    return compiler_messages(log or "")


def _moment(evaluation: Evaluation) -> str:
    return f"{evaluation.state}-{evaluation.stage}"
