"""The values that the tables store (states, reasons, kinds), and the allowed transitions between states.

Below models and querysets, so that both can use them. Does NOT cover verdicts, which belong to the harness.
"""

from django.db import models


class State(models.TextChoices):
    """The state of an evaluation. Its result is the verdict."""

    QUEUED = "queued", "Queued"
    CLAIMED = "claimed", "Claimed by a worker"
    COMPILING = "compiling", "Compiling"
    VERIFYING = "verifying", "Verifying"
    TIMING = "timing", "Timing"
    AUDITING = "auditing", "Auditing"
    DONE = "done", "Done"
    CANCELLED = "cancelled", "Cancelled"
    EXPIRED = "expired", "Expired"


RUNNING = (State.CLAIMED, State.COMPILING, State.VERIFYING, State.TIMING, State.AUDITING)
FINISHED = (State.DONE, State.CANCELLED, State.EXPIRED)

# Back to QUEUED: the worker was lost, or it has compiled and the device is next. Verify and time alternate per
# configuration, so a judging may move between them.
MOVES: dict[State, frozenset[State]] = {
    State.QUEUED: frozenset({State.CLAIMED, State.CANCELLED, State.EXPIRED}),
    State.CLAIMED: frozenset({*RUNNING, State.QUEUED, State.DONE, State.CANCELLED} - {State.CLAIMED}),
    State.COMPILING: frozenset(
        {*RUNNING, State.QUEUED, State.DONE, State.CANCELLED} - {State.COMPILING, State.CLAIMED}
    ),
    State.VERIFYING: frozenset({State.TIMING, State.AUDITING, State.QUEUED, State.DONE, State.CANCELLED}),
    State.TIMING: frozenset({State.VERIFYING, State.AUDITING, State.QUEUED, State.DONE, State.CANCELLED}),
    State.AUDITING: frozenset({State.QUEUED, State.DONE, State.CANCELLED}),
    State.DONE: frozenset(),
    State.CANCELLED: frozenset(),
    State.EXPIRED: frozenset(),
}


def sources(target: State) -> tuple[State, ...]:
    """The states from which `target` may be entered."""
    return tuple(state for state, targets in MOVES.items() if target in targets)


class Priority(models.IntegerChoices):
    """The class of an evaluation in the queue; lower goes first."""

    PERSON = 0, "A person is waiting"
    AGENT = 10, "Agent run"
    REJUDGE = 20, "Judged again"
    EXAMPLE = 30, "Shipped example"


class ContestState(models.TextChoices):
    """Where a contest is. The clock moves it on from an announcement; hidden configurations open with JUDGING."""

    DRAFT = "draft", "Draft"
    ANNOUNCED = "announced", "Announced"
    RUNNING = "running", "Running"
    JUDGING = "judging", "Final judging"
    FINISHED = "finished", "Finished"
    CANCELLED = "cancelled", "Cancelled"


CONTEST_MOVES: dict[ContestState, frozenset[ContestState]] = {
    ContestState.DRAFT: frozenset({ContestState.ANNOUNCED}),
    ContestState.ANNOUNCED: frozenset({ContestState.RUNNING, ContestState.CANCELLED}),
    ContestState.RUNNING: frozenset({ContestState.JUDGING, ContestState.CANCELLED}),
    ContestState.JUDGING: frozenset({ContestState.FINISHED}),
    ContestState.FINISHED: frozenset(),
    ContestState.CANCELLED: frozenset(),
}


class RequestState(models.TextChoices):
    """Where a request for a kernel is. Only an open one, or one that was, is public."""

    QUEUED = "queued", "Waiting to be examined"
    EXAMINING = "examining", "Being examined"
    REFUSED = "refused", "Refused by the importer"
    OPEN = "open", "Open"
    ANSWERED = "answered", "Answered"
    CLOSED = "closed", "Closed"


REQUEST_MOVES: dict[RequestState, frozenset[RequestState]] = {
    RequestState.QUEUED: frozenset({RequestState.EXAMINING, RequestState.CLOSED}),
    RequestState.EXAMINING: frozenset({RequestState.QUEUED, RequestState.OPEN, RequestState.REFUSED}),
    RequestState.REFUSED: frozenset(),
    RequestState.OPEN: frozenset({RequestState.ANSWERED, RequestState.CLOSED}),
    RequestState.ANSWERED: frozenset(),
    RequestState.CLOSED: frozenset(),
}
REQUESTS = "requests"  # the suite of tasks that were made of requests
REQUEST_UNFINISHED = (RequestState.QUEUED, RequestState.EXAMINING, RequestState.OPEN)


class EvaluationReason(models.TextChoices):
    INITIAL = "initial", "First judging"
    REJUDGE = "rejudge", "Judged again"
    VERIFICATION = "verification", "Second opinion"
    AUDIT = "audit", "Audit"
    SITE_AUDIT = "site-audit", "Audit of a leading entry"
    QUICK = "quick", "Quick check"
    CONTEST = "contest", "Final of a contest"


class CheckState(models.TextChoices):
    """The state of a check without a GPU. Its result is the verdict."""

    QUEUED = "queued", "Queued"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"


CHECK_OPEN = (CheckState.QUEUED, CheckState.RUNNING)


class MethodKind(models.TextChoices):
    HUMAN = "human", "People"
    AGENT = "agent", "Agent"
    BASELINE = "baseline", "Baseline"
    LIBRARY = "library", "Library"


class Difficulty(models.TextChoices):
    """Derived from the definition of a task by `catalogue/difficulty.py`."""

    EASY = "easy", "Easy"
    MEDIUM = "medium", "Medium"
    HARD = "hard", "Hard"


class ImportOutcome(models.TextChoices):
    """What an import made of one task."""

    CREATED = "created", "New"
    RENEWED = "renewed", "New version"
    UNCHANGED = "unchanged", "Unchanged"
    REFUSED = "refused", "Refused"
    RETIRED = "retired", "Retired"


class Visibility(models.TextChoices):
    PUBLIC = "public", "Everyone"
    UNLISTED = "unlisted", "Everyone with the link"
    PRIVATE = "private", "Only me"


class Origin(models.TextChoices):
    WEB = "web", "Web page"
    API = "api", "API"
    CLI = "cli", "Command line"
    AGENT = "agent", "Agent run"
    EXAMPLE = "example", "Shipped with kbench"


class TeamRole(models.TextChoices):
    OWNER = "owner", "Owner"
    MEMBER = "member", "Member"


class MembershipState(models.TextChoices):
    """What an account is in a team."""

    INVITED = "invited", "Invited"
    MEMBER = "member", "Member"
    ENDED = "ended", "No longer in the team"


class LedgerKind(models.TextChoices):
    CHARGE = "charge", "Charged"
    REFUND = "refund", "Refunded"
    GRANT = "grant", "Paid by a request"


class TokenScope(models.TextChoices):
    READ = "read", "Read everything its owner may read"
    SUBMIT = "submit", "Read, submit and cancel"


class WorkerRole(models.TextChoices):
    COMPILE = "compile", "Compiling"
    JUDGE = "judge", "Judging"
    MAINT = "maint", "Housekeeping"
    AGENTS = "agents", "Agent runs"


DEVICELESS = (WorkerRole.MAINT, WorkerRole.AGENTS)


class WorkerState(models.TextChoices):
    STARTING = "starting", "Starting"
    ONLINE = "online", "Online"
    OFFLINE = "offline", "Offline"
    QUARANTINED = "quarantined", "Quarantined: its self-test failed"


class TaskVersionStatus(models.TextChoices):
    ACTIVE = "active", "Active"
    RETIRED = "retired", "Retired"
    CONTEST = "contest", "Final of a contest"


class Switch(models.TextChoices):
    """What staff can turn off without a deploy; the message is shown to everybody."""

    SUBMISSIONS = "submissions", "New submissions"
    JUDGING = "judging", "Judging of queued submissions"
    RUNS = "runs", "New agent runs"
    SIGN_UPS = "sign-ups", "New accounts"
    COMMENTS = "comments", "New comments"
    REQUESTS = "requests", "New requests"
    RECORDED = "recorded", "Recorded results of other machines"
    BANNER = "banner", "Notice on every page"


class Moderation(models.TextChoices):
    """What staff have decided about a submission. Its evaluations and their scores are never touched."""

    OK = "ok", "Shown"
    HIDDEN = "hidden", "Hidden: only its author and staff can read it"
    INVALIDATED = "invalidated", "Invalidated: readable, but not ranked"


class ActionKind(models.TextChoices):
    """What a person has done about a submission, an account or the site; a line of the log."""

    FLAG = "flag", "Reported"
    DISMISS = "dismiss", "Report dismissed"
    HIDE = "hide", "Hidden"
    INVALIDATE = "invalidate", "Invalidated"
    RESTORE = "restore", "Restored"
    SHOW = "show", "Shown again, still invalidated"
    CONFIRM = "confirm", "Review closed"
    REOPEN = "reopen", "Review reopened"
    BAN = "ban", "Account suspended"
    UNBAN = "unban", "Suspension lifted"
    SWITCH = "switch", "Switch changed"
    REJUDGE = "rejudge", "Judged again"


class NotificationKind(models.TextChoices):
    """What an account can be told."""

    VERDICT = "verdict", "Verdict of a submission"
    RECORD_LOST = "record-lost", "Lost first place"
    RUN_ENDED = "run-ended", "End of an agent run"
    REPORT_DECIDED = "report-decided", "Decision about a report"
    CONTEST_ENDED = "contest-ended", "Results of a contest"
    COMMENT = "comment", "Comment on a submission"
    TEAM = "team", "Invitation to a team"
    ANSWER = "answer", "Answer to a request"
    WEBHOOK_OFF = "webhook-off", "Webhook switched off"


CHOSEN_KINDS = tuple(kind for kind in NotificationKind if kind != NotificationKind.WEBHOOK_OFF)  # always told


class Channel(models.TextChoices):
    SITE = "site", "On this site"
    MAIL = "mail", "By e-mail"
    WEBHOOK = "webhook", "To a webhook"


class DeliveryState(models.TextChoices):
    WAITING = "waiting", "Waiting"
    SENT = "sent", "Sent"
    FAILED = "failed", "Failed"


class BatchState(models.TextChoices):
    """Where a batch of entries that are judged again is."""

    RUNNING = "running", "Running"
    PAUSED = "paused", "Paused"
    CANCELLED = "cancelled", "Cancelled"
    DONE = "done", "Done"


# How a time on a GPU is known, the best first: as a board lists entries that share a rank.
REPLAYED, AUDITED, BOUNDED = "replayed", "audited", "bounded"
TIMINGS = (REPLAYED, AUDITED, BOUNDED)
