"""Which final judging of a contest a worker takes next: all of a contest on one device kind are judged by one worker.

They go before everything else on that worker, so that they follow each other. Does NOT say when a sitting ends or
begins anew (`contests/finals.py`).
"""

from ..models import ContestSitting, DeviceKind, Evaluation, Worker
from ..states import EvaluationReason


def next_final(worker: Worker, device_kind: DeviceKind) -> int | None:
    """The sitting is the worker's who asks first; other workers find nothing."""
    for sitting in ContestSitting.objects.filter(device_kind=device_kind, ended=None):
        waiting = Evaluation.objects.queued().filter(
            reason=EvaluationReason.CONTEST,
            device_kind=device_kind,
            contest_entry__task__contest=sitting.contest_id,
        )
        pk: int | None = waiting.order_by("queued", "pk").values_list("pk", flat=True).first()
        if pk is not None and _is_mine(sitting, worker):
            return pk
    return None


def _is_mine(sitting: ContestSitting, worker: Worker) -> bool:
    if sitting.worker_id is None:
        ContestSitting.objects.filter(pk=sitting.pk, worker=None).update(worker=worker)
        sitting.refresh_from_db(fields=["worker"])
    return sitting.worker_id == worker.pk
