"""The jobs of the schedule: lost rows and messages, batches, audits, contests, notifications, samples, the data set.

Does NOT do the work itself: each calls the module that does. When they run is in `kbench_site/celery.py`.
"""

from celery import shared_task
from django.db.models import Count

from .. import comments, events, services, teams
from ..accounts import limits
from ..contests import running
from ..dataset import files, nightly
from ..harness import CPU
from ..judgings import checks, moves, profiles, queue
from ..models import Evaluation
from ..moderation import rejudging
from ..notifications import courier, telling
from ..operations.load import forget_old_samples, take_sample
from ..operations.statistics import statistics_gather
from ..requests import examining
from ..selectors import find_device_kind


@shared_task(name=queue.REAP_JOB, ignore_result=True, time_limit=60)
def reap() -> None:
    """Requeue evaluations whose worker was lost; end those that can never run."""
    moves.requeue_lost()
    checks.requeue_lost_checks()
    profiles.requeue_lost_profiles()
    examining.requeue_lost_examinations()
    moves.expire_hopeless()


@shared_task(name=queue.DISPATCH_JOB, ignore_result=True, time_limit=30)
def dispatch() -> None:
    """Wake workers for rows whose message was lost."""
    if (waiting := checks.waiting_checks()) and (processor := find_device_kind(CPU)):
        queue.resend_checks(processor.slug, waiting)
    if (waiting := examining.waiting_examinations()) and (processor := find_device_kind(CPU)):
        queue.resend_examinations(processor.slug, waiting)
    queue.resend_profiles(profiles.waiting_profiles())
    queue.resend(to_compile=_rows_by_kind(built__isnull=True), to_judge=_rows_by_kind(built__isnull=False))


def _rows_by_kind(**condition: bool) -> dict[str, int]:
    waiting = Evaluation.objects.queued().order_by().filter(**condition)
    return dict(waiting.values_list("device_kind__slug").annotate(rows=Count("pk")))


@shared_task(name=queue.REJUDGE_JOB, ignore_result=True, time_limit=60)
def rejudge() -> None:
    """Queue the next entries of the batches that are judged again."""
    rejudging.advance()


@shared_task(name=queue.AUDIT_JOB, ignore_result=True, time_limit=60)
def audit_leaders() -> None:
    """Queue leading entries that have no audit, or that an earlier revision of the judge's timing has timed."""
    services.leaders_audit()
    services.leaders_rejudge()


@shared_task(name=queue.PRUNE_JOB, ignore_result=True, time_limit=600)
def prune_events() -> None:
    """Forget what is old, then tell SQLite what is left."""
    events.prune()
    telling.forget()
    comments.forget()
    checks.forget_checks()
    limits.forget()
    teams.forget()
    forget_old_samples()
    statistics_gather()


@shared_task(name=queue.CONTESTS_JOB, ignore_result=True, time_limit=600)
def contests() -> None:
    """Begin, end and finish contests whose time has come."""
    running.advance()


@shared_task(name=queue.DELIVER_JOB, ignore_result=True, time_limit=30)
def deliver() -> None:
    """Send e-mails and webhooks that are due, in a thread, so that housekeeping is not delayed."""
    courier.start()


@shared_task(name=queue.SAMPLE_JOB, ignore_result=True, time_limit=30)
def sample_queues() -> None:
    """Record the length of the queues."""
    take_sample()


@shared_task(name=queue.EXPORT_JOB, ignore_result=True, time_limit=60)
def export_records() -> None:
    """Write the public data set anew where it is due, in a process of its own."""
    if files.is_due():
        nightly.start()
