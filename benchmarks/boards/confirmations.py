"""What staff have confirmed: written when they close a review, and taken back when they reopen it.

A confirmation belongs to no submission. It is of a text, and of what the text was compiled to, on a board. Does NOT
say what a confirmation settles (`settled.py`).
"""

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from ..harness import LANGUAGES, read_alike
from ..models import Confirmation, Submission
from .settled import gates_of, most

_BOARD = ("task_version", "device_kind", "ruleset")


def confirm(submission: Submission) -> None:
    """All that it was judged to until now. What its text is compiled to later nobody has seen."""
    about = {"source_sha256": submission.blob_id, "language": submission.language, "confirmed": timezone.now()}
    seen = dict[tuple[object, ...], Confirmation]()
    for item in submission.evaluations.exclude(verdict="").order_by("pk"):
        columns = {name: getattr(item, name) for name in (*(f"{name}_id" for name in _BOARD), "object_key")}
        row = seen.setdefault(tuple(columns.values()), Confirmation(**about, **columns))
        for gate in gates_of(item):
            row.reached[gate["code"]] = max(row.reached.get(gate["code"], 0.0), most(item))
    Confirmation.objects.bulk_create(seen.values())


def of(submission: Submission) -> QuerySet[Confirmation]:
    """Those that hold for it: of its text or of what it was compiled to, for the device kinds on which it was judged.

    On all versions of the task: it settles there what staff had decided before.
    """
    like = Q(pk=None)
    judged = submission.evaluations.exclude(verdict="").order_by()
    for device_kind, object_key in judged.values_list("device_kind", "object_key").distinct():
        same = Q(source_sha256=submission.blob_id) | (Q(object_key=object_key) & ~Q(object_key=""))
        like |= same & Q(device_kind=device_kind)
    task = {"task_version__task": submission.task_version.task_id}
    return Confirmation.objects.filter(like, language__in=read_alike(submission.language), **task)


def no_open_gate() -> Q:
    """Evaluations that no gate holds, or whose text or compiled code was confirmed when staff could see them."""
    board = {name: OuterRef(name) for name in _BOARD}
    shown = Coalesce(OuterRef("submission__shown_at"), OuterRef("submission__created"))
    later = Confirmation.objects.filter(confirmed__gte=OuterRef("finished"), **board).filter(confirmed__gte=shown)
    same = Q(source_sha256=OuterRef("submission__blob")) | (Q(object_key=OuterRef("object_key")) & ~Q(object_key=""))
    found = Q(gated=False)
    for languages in {read_alike(language) for language in LANGUAGES}:
        found |= Q(submission__language__in=languages) & Q(Exists(later.filter(same, language__in=languages)))
    return found


def confirmed_rows() -> Q:
    """Standings whose text has been confirmed on their board."""
    board = {name: OuterRef(name) for name in _BOARD}
    text = OuterRef("evaluation__submission__blob")
    return Q(Exists(Confirmation.objects.filter(source_sha256=text, **board)))
