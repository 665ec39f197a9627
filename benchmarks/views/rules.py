"""The rules page: explains the score with the numbers of the rule set itself, so that page and judge cannot disagree.

There is one page per rule set, older ones included, with the changes since the one before. Does NOT check anything:
the harness does.
"""

from dataclasses import dataclass

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from benchmarks.catalogue.folders import rules_folder, rules_named
from benchmarks.catalogue.rule_changes import predecessor, rule_changes
from benchmarks.harness import VERDICT_TEXTS, Rules, Verdict
from benchmarks.templatetags.numbers import percent, seconds, size


@dataclass(frozen=True)
class RuleCheck:
    """A condition that the judge checks, and the verdict if it does not hold; None: the entry goes under review."""

    stage: str
    text: str
    verdict: Verdict | None


def rules(request: HttpRequest, name: str = "") -> HttpResponse:
    name = name or settings.KBENCH_RULESET
    names = sorted(path.stem for path in rules_folder().glob("*.toml"))
    if name not in names:
        raise Http404("There is no such rule set.")
    shown, previous = rules_named(name), predecessor(name, names)
    context = {
        "rules": shown,
        "checks": checks(shown),
        "verdicts": VERDICT_TEXTS.items(),
        "names": names,
        "others": len(names) > 1,
        "current": settings.KBENCH_RULESET,
        "previous": previous,
        "changes": rule_changes(rules_named(previous).text, shown.text) if previous else [],
    }
    return render(request, "rules.html", context)


def checks(shown: Rules) -> list[RuleCheck]:
    """What a submission goes through, in order."""
    compiling, limits, gates = shown.compile, shown.limits, shown.gates
    calls = shown.verify.calls_per_config
    return [
        RuleCheck("Static check", f"The source has at most {size(shown.source.max_bytes)}.", Verdict.REJECTED),
        RuleCheck(
            "Static check",
            "It is text in a language of the task and exports the functions that the task requires.",
            Verdict.REJECTED,
        ),
        RuleCheck("Compile", "The compiler accepts it.", Verdict.COMPILE_ERROR),
        RuleCheck("Compile", f"Compilation ends within {seconds(compiling.timeout_s)}.", Verdict.TIMEOUT),
        RuleCheck("Load", f"The process starts within {seconds(limits.setup_s)}.", Verdict.TIMEOUT),
        RuleCheck("Verify and time", f"A call ends within {seconds(limits.call_s)}.", Verdict.TIMEOUT),
        RuleCheck("Verify and time", "The process raises no error and does not die.", Verdict.RUNTIME_ERROR),
        RuleCheck("Verify and time", f"It uses at most {size(limits.memory_bytes)} of memory.", Verdict.OUT_OF_MEMORY),
        RuleCheck(
            "Verify and time",
            "The number and the shapes of the results are those of the task.",
            Verdict.INCORRECT_SHAPE,
        ),
        RuleCheck("Verify and time", "The dtypes of the results are those of the task.", Verdict.INCORRECT_DTYPE),
        RuleCheck(
            "Verify",
            f"Every element agrees with float64 in {calls} calls per configuration, hidden ones included.",
            Verdict.INCORRECT_VALUE,
        ),
        RuleCheck("Time", "The results of every timed call agree with float64.", Verdict.INCORRECT_VALUE),
        RuleCheck(
            "Verify and time",
            "A repeated call on the same input gives the same outcome, right or wrong.",
            Verdict.NONDETERMINISTIC,
        ),
        RuleCheck("Verify and time", "Nothing is written after a call has returned.", Verdict.TAMPERING),
        RuleCheck(
            "Time", f"The interval of the score is within ±{percent(shown.score.max_half_width)}.", Verdict.NOISY
        ),
        RuleCheck("Before ranking", f"The speedup over the stronger baseline is at most {gates.max_speedup:g}×.", None),
        RuleCheck(
            "Before ranking",
            f"The speed is at most {percent(gates.max_roofline_fraction)} of the machine's roofline.",
            None,
        ),
        RuleCheck("Before ranking", "The error is not exactly zero where rounding is expected.", None),
        RuleCheck("Before ranking", "The same source passes every time it is judged.", None),
    ]
