"""The parts that many pages share: navigation, banners, verdict badges, headers of sortable columns.

Does NOT format numbers (`numbers`), code (`code`) or intervals (`whiskers`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import template
from django.conf import settings
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from benchmarks import selectors
from benchmarks.harness import Verdict
from benchmarks.judgings import advice
from benchmarks.models import Evaluation, Submission
from benchmarks.notifications import lists
from benchmarks.states import State, Visibility

register = template.Library()


@register.filter
def pairs(named: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    """Names and values. `named.items` in a template would be the value that somebody has called `items`."""
    return list((named or {}).items())


NAVIGATION = {
    "tasks": "Tasks",
    "leaderboards": "Leaderboards",
    "methods": "Methods",
    "compare": "Compare",
    "runs": "Runs",
    "contests": "Contests",
    "rules": "Rules",
    "status": "Status",
}


@dataclass(frozen=True)
class Badge:
    """A word and an icon; the colour only repeats what they say."""

    text: str
    level: str
    icon: str


QUICK_BADGE = Badge("Quick check passed", "good", "check")
VERDICT_BADGES = {
    Verdict.PASS: Badge("Accepted", "good", "check"),
    Verdict.COMPILE_ERROR: Badge("Does not compile", "bad", "cross"),
    Verdict.REJECTED: Badge("Rejected", "bad", "cross"),
    Verdict.INCORRECT_SHAPE: Badge("Wrong shape", "bad", "cross"),
    Verdict.INCORRECT_DTYPE: Badge("Wrong dtype", "bad", "cross"),
    Verdict.INCORRECT_VALUE: Badge("Wrong values", "bad", "cross"),
    Verdict.NONDETERMINISTIC: Badge("Not deterministic", "bad", "cross"),
    Verdict.RUNTIME_ERROR: Badge("Runtime error", "bad", "cross"),
    Verdict.OUT_OF_MEMORY: Badge("Out of memory", "bad", "cross"),
    Verdict.TIMEOUT: Badge("Timed out", "bad", "clock"),
    Verdict.TAMPERING: Badge("Tampering", "bad", "shield"),
    Verdict.NOISY: Badge("Too noisy to measure", "warn", "wave"),
    Verdict.INTERNAL_ERROR: Badge("Internal error", "warn", "gear"),
}
TIMING_TRUST = {
    "supervisor": "with the judge's clock",
    "replayed": "by a separate process that replayed the recorded calls",
    "bounded": "with GPU events, bounded by the judge's clock",
    "audited": "with GPU events, confirmed by an audit",
}
TRUST_BADGES = {
    "replayed": Badge("replayed", "good", "shield"),
    "audited": Badge("audited", "good", "shield"),
    "bounded": Badge("bounded", "", "clock"),
}
STATE_BADGES = {
    State.QUEUED: Badge("Queued", "live", "clock"),
    State.CANCELLED: Badge("Cancelled", "", "pause"),
    State.EXPIRED: Badge("Expired", "warn", "clock"),
}


@register.inclusion_tag("_badge.html")
def outcome(evaluation: Evaluation) -> dict[str, Badge]:
    """How it ended, or where it is."""
    if evaluation.is_quick and evaluation.verdict == Verdict.PASS:
        return {"badge": QUICK_BADGE}
    if evaluation.verdict:
        return {"badge": VERDICT_BADGES[Verdict(evaluation.verdict)]}
    state = State(evaluation.state)
    return {"badge": STATE_BADGES.get(state, Badge(state.label, "live", "play"))}


@register.inclusion_tag("_badge.html")
def verdict_badge(verdict: str) -> dict[str, Badge]:
    return {"badge": VERDICT_BADGES[Verdict(verdict)]}


@register.simple_tag
def trust_badge(level: str) -> str:
    """How far a time on a GPU was confirmed; on a CPU there is nothing to tell apart."""
    badge = TRUST_BADGES.get(level)
    return render_to_string("_badge.html", {"badge": badge}) if badge else ""


@register.inclusion_tag("_navigation.html", takes_context=True)
def navigation(context: template.Context) -> dict[str, Any]:
    path = context["request"].path if "request" in context else ""
    links = [(reverse(name), title) for name, title in NAVIGATION.items()]
    return {"links": [(url, title, path.startswith(url)) for url, title in links]}


@register.inclusion_tag("_navigation.html", takes_context=True)
def entry_links(context: template.Context) -> dict[str, Any]:
    """The pages of how an account logs in."""
    pages = {"account_change_password": "Password", "mfa_index": "Second factor"}
    if settings.KBENCH_SENDS_MAIL:
        pages["account_email"] = "E-mail"
    if settings.SOCIALACCOUNT_PROVIDERS:
        pages["socialaccount_connections"] = "Connected accounts"
    here = context["request"].path
    return {"links": [(reverse(name), title, here == reverse(name)) for name, title in pages.items()]}


@register.inclusion_tag("_banners.html")
def site_banners() -> dict[str, Any]:
    return {"notices": selectors.site_notices()}


@register.inclusion_tag("_sort_header.html", takes_context=True)
def sort_header(context: template.Context, key: str, title: str, css: str = "") -> dict[str, Any]:
    """The header of a column that the URL parameter `sort` orders; following it again turns the order round."""
    now = context["sort"]
    query = context["request"].GET.copy()
    query.pop("page", None)
    query["sort"] = f"-{key}" if now == key else key
    order = {key: "ascending", f"-{key}": "descending"}.get(now, "")
    return {"title": title, "url": f"?{query.urlencode()}", "order": order, "css": css}


@register.filter
def trust(level: str) -> str:
    """How far the submission could have influenced its own time."""
    return TIMING_TRUST.get(level, level or "not recorded")


@register.filter
def on_remark(code: str) -> str:
    """What to do about a remark or a gate of a report."""
    return advice.on_remark(code)


@register.filter
def config_key(key: str) -> str:
    """With places at which a line may break."""
    return key.replace(",", ", ")


@register.filter
def breakable(name: str) -> SafeString:
    """The name of a task with places at which a line may break."""
    return format_html_join(SafeString("<wbr>"), "{}", ((part,) for part in re.split(r"(?<=[_/])", name)))


@register.filter
def holder(evaluation: Evaluation) -> str:
    """Whose it is, in words."""
    return holder_of(evaluation.submission)


def holder_of(submission: Submission) -> str:
    """A team with the person who made it."""
    if submission.owner:
        person = str(submission.owner.get_username())
    else:
        person = "kbench" if submission.origin == "example" else "anonymous"
    return f"{submission.team} ({person})" if submission.team else person


@register.simple_tag
def entry_licence() -> str:
    """What follows "public entries appear with their source": under which licence, where the site states one."""
    return (
        f" and may be used by everybody under {settings.KBENCH_ENTRY_LICENCE}" if settings.KBENCH_ENTRY_LICENCE else ""
    )


@register.filter
def holder_link(evaluation: Evaluation) -> SafeString | str:
    """Whose it is, as a link to their page where the evaluation is public."""
    submission = evaluation.submission
    public = submission.owner and submission.visibility == Visibility.PUBLIC
    if not public:
        return holder(evaluation)
    person = person_link(submission.owner)
    if submission.team is None:
        return person
    return format_html('<a href="{}">{}</a> ({})', submission.team.get_absolute_url(), submission.team, person)


@register.filter
def person_link(person: Any) -> SafeString | str:
    """The name of an account as a link to its page; `person` is None where nobody was logged in."""
    if person is None:
        return "anonymous"
    name = person.get_username()
    return format_html('<a href="{}">{}</a>', reverse("person", args=[name]), name)


@register.simple_tag(takes_context=True)
def unread_notifications(context: dict[str, Any]) -> SafeString:
    """The link to the notifications of whoever reads, with the number of those that are new."""
    count = lists.unread_count(context["request"].user)
    shown = f"{lists.UNREAD_SHOWN_MAX}+" if count > lists.UNREAD_SHOWN_MAX else count
    number = format_html(' <span class="badge live">{} new</span>', shown) if count else ""
    return format_html('<a href="{}">Notifications{}</a>', reverse("notifications"), number)
