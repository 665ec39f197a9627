"""How a score comes about, told from the numbers of the rule set itself, so that page and judge cannot disagree."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from benchmarks.harness import VERDICT_TEXTS, default_rules


def rules(request: HttpRequest) -> HttpResponse:
    context = {"rules": default_rules(settings.KBENCH_RULESET), "verdicts": VERDICT_TEXTS.items()}
    return render(request, "rules.html", context)
