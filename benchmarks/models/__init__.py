"""The tables, one module per room: tasks, submissions, evaluations, boards, accounts, the site.

Invariants are constraints of the database. Changes of state are in the service modules, never here.
Does NOT cover accounts themselves (Django's own User) and agent runs (the `agents` app).
"""

from .accounts import ApiToken
from .boards import Standing
from .checks import EmulatorCheck
from .comments import Comment
from .contests import CONTEST_SEEN, Contest, ContestEntry, ContestParticipant, ContestSitting, ContestTask
from .evaluations import BaselineResult, ConfigResult, Evaluation, StageResult, Worker
from .imports import ImportReport, StoredTask, SuiteImport
from .ledger import CachedValue, Confirmation, DeletedConnection, DeletedScore, LedgerEntry, Payer, Refusal, SpentPlace
from .moderation import ModerationAction, RejudgeBatch, RejudgeItem
from .news import NewsPost
from .notifications import Delivery, Notification, NotificationChoice
from .operations import QueueSample
from .profiles import ProfileRequest
from .recorded import RecordedBundle, RecordedEntry
from .requests import KernelRequest, RequestVote
from .site import Event, SiteSwitch
from .submissions import CodeBlob, Method, Submission
from .tasks import DeviceKind, RuleSet, Suite, Task, TaskVersion
from .teams import Team, TeamMembership

__all__ = [
    "CONTEST_SEEN",
    "ApiToken",
    "BaselineResult",
    "CachedValue",
    "CodeBlob",
    "Comment",
    "ConfigResult",
    "Confirmation",
    "Contest",
    "ContestEntry",
    "ContestParticipant",
    "ContestSitting",
    "ContestTask",
    "DeletedConnection",
    "DeletedScore",
    "Delivery",
    "DeviceKind",
    "EmulatorCheck",
    "Evaluation",
    "Event",
    "ImportReport",
    "KernelRequest",
    "LedgerEntry",
    "Method",
    "ModerationAction",
    "NewsPost",
    "Notification",
    "NotificationChoice",
    "Payer",
    "ProfileRequest",
    "QueueSample",
    "RecordedBundle",
    "RecordedEntry",
    "Refusal",
    "RejudgeBatch",
    "RejudgeItem",
    "RequestVote",
    "RuleSet",
    "SiteSwitch",
    "SpentPlace",
    "StageResult",
    "Standing",
    "StoredTask",
    "Submission",
    "Suite",
    "SuiteImport",
    "Task",
    "TaskVersion",
    "Team",
    "TeamMembership",
    "Worker",
]
