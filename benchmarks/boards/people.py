"""The public data of an account or a team: its ranked entries and its submissions.

Nothing private, unlisted, hidden or under review counts; members of a team see what was made for it, though. Does NOT
read agent runs: an extension says whether it has something public of the account.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.paginator import Page
from django.db.models import Count, Min
from django.http import Http404

from ..extensions import extensions
from ..models import Evaluation, Standing, Submission, Team
from ..querysets import HEAVY
from ..querysets import User as Reader
from ..selectors import active_ruleset, page_of_keys
from ..states import Moderation, Origin, TaskVersionStatus

NEWEST = 10
NEWEST_INSIDE = 50  # for members of a team


@dataclass(frozen=True)
class PublicProfile:
    """Figures over all current boards, one page of `entries`, and what was submitted last, agent runs left out."""

    entries: Page[Any]  # standings with `of`: how many entries their board ranks
    tasks: int
    firsts: int
    submissions: int
    since: datetime | None
    newest: list[Evaluation]


def person_named(name: str, reader: Reader) -> tuple[User, bool]:
    """The account, and whether its page is public. Raises Http404, with the same answer as for an unknown name."""
    person = User.objects.filter(username=name).first() if name.isprintable() else None  # no database takes a NUL
    if person is not None:
        public = _public(person).exists() or any(item.names(person) for item in extensions())
        if public or reader.pk == person.pk or getattr(reader, "is_staff", False):
            return person, public
    raise Http404("No account with this name has published anything here.")


def profile_of_person(person: User, page: int | str = 1) -> PublicProfile:
    made = _public(person)
    return _profile({"evaluation__submission__owner": person}, made, _newest(made), page)


def profile_of_team(team: Team, *, inside: bool, page: int | str = 1) -> PublicProfile:
    """`inside`: for a member, who may read private submissions, too."""
    made = Submission.objects.published().filter(team=team).order_by()
    all_of_it = Submission.objects.filter(team=team).exclude(moderation=Moderation.HIDDEN)
    newest = _newest(all_of_it, NEWEST_INSIDE) if inside else _newest(made)
    return _profile({"evaluation__submission__team": team}, made, newest, page)


def _profile(whose: dict[str, Any], made: Any, newest: list[Evaluation], page: int | str) -> PublicProfile:
    mine = _current(whose)
    whole = (
        Standing.objects.ranked().listable().with_context().select_related("task_version__task__suite", "device_kind")
    )
    entries = page_of_keys([key for key, _, _ in mine], whole.defer(*HEAVY), page)
    _attach_board_sizes(list(entries))
    return PublicProfile(
        entries=entries,
        newest=newest,
        tasks=len({version for _, version, _ in mine}),
        firsts=sum(rank == 1 for _, _, rank in mine),
        **made.aggregate(submissions=Count("pk"), since=Min("created")),
    )


def _public(person: User) -> Any:
    return Submission.objects.published().filter(owner=person).order_by()


def _current(whose: dict[str, Any]) -> list[tuple[int, int, int]]:
    """Key, task version and rank of entries on the boards of active tasks under the active rule set, best first.

    Rule sets are compared here: with a condition on them, SQLite begins with all standings and not with what was
    submitted.
    """
    ranked = Standing.objects.ranked().listable().filter(rank__isnull=False, **whose)
    rows = ranked.filter(task_version__status=TaskVersionStatus.ACTIVE).order_by("rank", "-score", "pk")
    ruleset = active_ruleset()
    return [
        row for *row, of in rows.values_list("pk", "task_version", "rank", "ruleset") if ruleset and of == ruleset.pk
    ]


def _attach_board_sizes(entries: list[Any]) -> None:
    boards = {"task_version__in": {row.task_version_id for row in entries}, "ruleset__name": settings.KBENCH_RULESET}
    ranked = Standing.objects.filter(rank__isnull=False, **boards).order_by()
    counted = ranked.values_list("task_version", "device_kind").annotate(n=Count("pk"))
    sizes = {(version, device): count for version, device, count in counted}
    for row in entries:
        row.of = sizes.get((row.task_version_id, row.device_kind_id), row.rank)  # none: ranked anew since it was read


def _newest(made: Any, count: int = NEWEST) -> list[Evaluation]:
    """The newest judging of each of the newest submissions made by hand."""
    codes = made.exclude(origin=Origin.AGENT).order_by("-created", "-pk").values_list("pk", flat=True)
    rows = Evaluation.objects.with_context().filter(submission__in=list(codes[:count])).without_open_finals()
    newest: dict[int, Evaluation] = {}
    for row in rows.order_by("-submission__created", "-queued", "-pk"):
        newest.setdefault(row.submission_id, row)
    return list(newest.values())
