"""Everything that the site keeps of one account as a ZIP archive, made while it is sent.

Twenty submissions at a time are in memory. An app that keeps more of an account adds its files (`extensions.py`). Does
NOT export what others made.
"""

import json
import zipfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import User
from django.db.models import Prefetch
from django.utils import timezone

from ..extensions import extensions
from ..models import (
    ApiToken,
    Comment,
    ContestParticipant,
    EmulatorCheck,
    Evaluation,
    KernelRequest,
    LedgerEntry,
    Notification,
    RequestVote,
    Submission,
    TeamMembership,
)
from ..submissions.languages import suffix_of

ABOUT = """Everything that this site keeps of the account {name}, as of {now}.

account.json            the account
email_addresses.json    its e-mail addresses
second_factors.json     name, kind and dates of its second factors, without their secrets
providers.json          accounts at other sites that it logs in with, and what these told
tokens.json             its API tokens; their text is not stored
contests.json           the contests that it takes part in
teams.json              the teams that it belongs to or was invited to
comments.json           what it wrote about submissions
requests.json           the kernels that it asked for, with posted files that no task was made of
votes.json              the requests that it voted for
notifications.json      what it was told
ledger.json             what its judgings cost, in seconds on a device
checks/CODE/            check.json and the source of a check without a GPU
submissions/CODE/       submission.json, the source, and per evaluation its report and, if there is one, its profile
"""
_TOKEN = ("name", "scope", "hint", "created", "expires", "last_used", "revoked")
_NOTIFICATION = ("kind", "text", "path", "created", "read")
_SUBMISSION = ("title", "language", "visibility", "origin", "created")
_EVALUATION = ("state", "reason", "verdict", "reason_text", "score", "score_lo", "score_hi", "queued", "finished")
_REQUEST = ("title", "reason", "licence", "files", "worth_s", "state", "state_text", "created", "opened", "ended")
_CHECK = ("state", "verdict", "problem", "report", "created", "finished")
_ACCOUNT = ("username", "date_joined", "last_login", "is_staff")

AT_ONCE = 20  # submissions
PIECE_BYTES = 65_536

File = tuple[str, bytes]


def files_of(user: User) -> Iterator[File]:
    yield (
        "README.txt",
        ABOUT.format(name=user.get_username(), now=timezone.now().isoformat(timespec="seconds")).encode(),
    )
    yield "account.json", as_json(picked(user, _ACCOUNT))
    addresses = EmailAddress.objects.filter(user=user).order_by("pk")
    yield "email_addresses.json", as_json([picked(row, ("email", "verified", "primary")) for row in addresses])
    factors = Authenticator.objects.filter(user=user).order_by("pk")
    dated = ("type", "created_at", "last_used_at")
    yield "second_factors.json", as_json([{"name": row.data.get("name"), **picked(row, dated)} for row in factors])
    connected = SocialAccount.objects.filter(user=user).order_by("pk")
    yield (
        "providers.json",
        as_json([picked(row, ("provider", "uid", "date_joined", "extra_data")) for row in connected]),
    )
    yield "tokens.json", as_json([picked(row, _TOKEN) for row in ApiToken.objects.filter(owner=user)])
    yield "ledger.json", as_json([_line(row) for row in LedgerEntry.objects.filter(payer__account=user)])
    joined = ContestParticipant.objects.filter(account=user).select_related("contest").order_by("pk")
    yield "contests.json", as_json([{"contest": row.contest.slug, **picked(row, ("joined",))} for row in joined])
    inside = TeamMembership.objects.filter(account=user).select_related("team").order_by("pk")
    rows = [{"team": row.team.name, **picked(row, ("role", "state", "changed"))} for row in inside]
    yield "teams.json", as_json(rows)
    written = Comment.objects.filter(author=user, deleted=None).select_related("submission").order_by("pk")
    of = [{"submission": row.submission.code, **picked(row, ("text", "created", "moderation"))} for row in written]
    yield "comments.json", as_json(of)
    asked = KernelRequest.objects.filter(owner=user).order_by("pk")
    yield "requests.json", as_json([{"id": row.pk, **picked(row, _REQUEST)} for row in asked])
    votes = RequestVote.objects.filter(account=user).order_by("pk")
    yield "votes.json", as_json([{"request": row.request_id, **picked(row, ("created",))} for row in votes])
    told = Notification.objects.filter(owner=user).order_by("pk")
    yield "notifications.json", as_json([picked(row, _NOTIFICATION) for row in told])
    for check in EmulatorCheck.objects.filter(owner=user).iterator(AT_ONCE):
        yield f"checks/{check.code}/check.json", as_json(picked(check, _CHECK))
        yield f"checks/{check.code}/kernel.{suffix_of('cuda')}", check.text.encode()
    for submission in _submissions(user):
        yield from _submission(submission)
    for extension in extensions():
        yield from extension.files_of(user)


def zipped(files: Iterator[File]) -> Iterator[bytes]:
    """The archive in pieces of some size; nothing is kept that was sent."""
    pipe = _Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[call-overload]
        for path, content in files:
            archive.writestr(path, content)
            if pipe.size_bytes >= PIECE_BYTES:
                yield pipe.taken()
    yield pipe.taken()


def as_json(value: Any) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str).encode()


def picked(row: object, names: tuple[str, ...]) -> dict[str, Any]:
    """Selected columns of a row, times as ISO 8601."""
    values = {name: getattr(row, name) for name in names}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}


class _Pipe:
    """A file that can only be written to: a ZIP archive needs no more."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.size_bytes = 0

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        self.size_bytes += len(data)
        return len(data)

    def flush(self) -> None:
        """Does nothing, because nothing is buffered."""

    def taken(self) -> bytes:
        parts, self._parts, self.size_bytes = self._parts, [], 0
        return b"".join(parts)


def _submissions(user: User) -> Iterator[Submission]:
    rows = Submission.objects.filter(owner=user).select_related("blob", "task_version__task__suite", "method")
    slim = rows.defer("task_version__definition", "task_version__reference_source")
    judged = Evaluation.objects.select_related("device_kind", "ruleset", "profile").defer("ruleset__text")
    judged = judged.without_open_finals().order_by("pk")
    return slim.prefetch_related(Prefetch("evaluations", judged)).order_by("pk").iterator(chunk_size=AT_ONCE)


def _submission(submission: Submission) -> Iterator[File]:
    folder = f"submissions/{submission.code}"
    version = submission.task_version
    facts: Mapping[str, Any] = {
        "code": str(submission.code),
        "task": version.task.path,
        "version": version.number,
        "method": submission.method.slug,
        "source_sha256": submission.blob_id,
        **picked(submission, _SUBMISSION),
    }
    yield f"{folder}/submission.json", as_json(facts)
    yield f"{folder}/kernel.{suffix_of(submission.language)}", submission.blob.text.encode()
    for evaluation in submission.evaluations.all():
        yield f"{folder}/evaluations/{evaluation.code}.json", as_json(_evaluation(evaluation))
        profile = getattr(evaluation, "profile", None)  # a related row that is not there is no attribute
        if profile is not None and profile.result is not None:
            yield f"{folder}/evaluations/{evaluation.code}-profile.json", as_json(profile.result)


def _evaluation(evaluation: Evaluation) -> dict[str, Any]:
    where = {"device": evaluation.device_kind.slug, "ruleset": evaluation.ruleset.name}
    return {**where, **picked(evaluation, _EVALUATION), "report": evaluation.report}


def _line(row: LedgerEntry) -> dict[str, Any]:
    return picked(row, ("created", "kind", "judging_s", "text"))
