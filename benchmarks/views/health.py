"""Pages for monitoring: `/healthz` (alive), `/readyz` (ready) and `/metrics`.

`/healthz` uses no other service, so that no process is killed because the database is unavailable. Does NOT show pages
for people.
"""

import secrets
from http import HTTPStatus

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from benchmarks.operations import health
from benchmarks.operations.metrics import exposition


@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"status": health.Level.OK})


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """503 when requests cannot be answered; degraded is still ready."""
    found = health.checks()
    level = health.worst(found)
    told = [{"name": check.name, "status": check.level, "text": check.text} for check in found]
    status = HTTPStatus.SERVICE_UNAVAILABLE if level is health.Level.DOWN else HTTPStatus.OK
    return JsonResponse({"status": level, "checks": told}, status=status)


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    refusal = _refusal(request)
    if refusal:
        return HttpResponse(refusal, status=HTTPStatus.FORBIDDEN, content_type="text/plain; charset=utf-8")
    return HttpResponse(exposition(), content_type=CONTENT_TYPE_LATEST)


def _refusal(request: HttpRequest) -> str:
    """Why this scrape is not answered; empty where it is."""
    wanted = settings.KBENCH_METRICS_TOKEN
    if wanted is None:
        return (
            "Set KBENCH_METRICS_TOKEN: a public site shows its metrics only with this token.\n"
            if settings.KBENCH_PUBLIC
            else ""
        )
    given = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if secrets.compare_digest(given.encode(), wanted.encode()):
        return ""
    return "Send the token of KBENCH_METRICS_TOKEN: Authorization: Bearer ...\n"
