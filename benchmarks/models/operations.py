"""Figures for the operators of a site: the length of its queues over time.

Does NOT hold queue waits, which are computed from the evaluations.
"""

from typing import ClassVar

from django.db import models

from .tasks import DeviceKind


class QueueSample(models.Model):
    """The queue of one device kind at one moment; housekeeping writes one each minute."""

    device_kind = models.ForeignKey(DeviceKind, on_delete=models.CASCADE, related_name="queue_samples")
    taken = models.DateTimeField()
    queued = models.PositiveIntegerField()
    running = models.PositiveIntegerField()

    class Meta:
        ordering: ClassVar = ["taken"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["device_kind", "taken"], name="queuesample_unique_moment")
        ]

    def __str__(self) -> str:
        return f"{self.device_kind} {self.taken:%H:%M}: {self.queued} queued"
