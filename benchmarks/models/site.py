"""Tables of the site as a whole: the event stream and the switches of its staff.

Does NOT send anything (`events.py`, `views/streams.py`).
"""

from typing import ClassVar

from django.db import models

from ..querysets import EventQuerySet
from ..states import Switch


class Event(models.Model):
    """Something changed: look again. Pages are rendered from the other tables, never from events."""

    topic = models.CharField(max_length=100)
    kind = models.CharField(max_length=30)
    payload = models.JSONField(default=dict)  # at most 2 KB, see events.py
    created = models.DateTimeField(auto_now_add=True, db_index=True)

    objects = EventQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["pk"]
        indexes: ClassVar = [models.Index(fields=["topic", "id"])]

    def __str__(self) -> str:
        return f"{self.topic} {self.kind}"


class SiteSwitch(models.Model):
    """A switch that staff can turn without a deploy; absent means on (for a banner: none)."""

    key = models.CharField(max_length=20, choices=Switch, unique=True)
    on = models.BooleanField(default=True)
    message = models.CharField(max_length=500, blank=True)
    changed = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.key}: {'on' if self.on else 'off'}"
