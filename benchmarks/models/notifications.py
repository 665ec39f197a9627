"""Notifications of accounts, their choice of channels, and the state of each delivery.

A delivery is moved by `notifications/courier.py` alone. Does NOT hold events of open pages (`models/site.py`).
"""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from ..states import Channel, DeliveryState, NotificationKind


class Notification(models.Model):
    """One sentence for one account. `on_site` is off where the account wants it by other channels alone."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notifications")
    kind = models.CharField(max_length=20, choices=NotificationKind)
    text = models.CharField(max_length=500)
    path = models.CharField(max_length=300)  # of the page that it is about
    on_site = models.BooleanField(default=True)
    created = models.DateTimeField(auto_now_add=True, db_index=True)
    read = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-pk"]
        indexes: ClassVar = [
            models.Index(fields=["owner", "-id"], condition=Q(on_site=True), name="notification_on_site"),
            models.Index(fields=["owner"], condition=Q(on_site=True, read=None), name="notification_unread"),
        ]

    def __str__(self) -> str:
        return self.text


class NotificationChoice(models.Model):
    """By which channels an account wants which kinds; without a row the defaults of `notifications/choices.py` hold."""

    owner = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    site = models.JSONField(default=list, blank=True)  # kinds
    mail = models.JSONField(default=list, blank=True)
    webhook = models.JSONField(default=list, blank=True)
    webhook_url = models.CharField(max_length=500, blank=True)
    webhook_secret = models.CharField(max_length=64, blank=True)
    webhook_failures = models.PositiveSmallIntegerField(default=0)  # one after the other

    def __str__(self) -> str:
        return f"notifications of account {self.owner_id}"


class Delivery(models.Model):
    """A notification on its way by e-mail or to a webhook."""

    notification = models.ForeignKey(Notification, on_delete=models.CASCADE, related_name="deliveries")
    channel = models.CharField(max_length=10, choices=Channel)
    state = models.CharField(max_length=10, choices=DeliveryState, default=DeliveryState.WAITING)
    attempts = models.PositiveSmallIntegerField(default=0)
    due = models.DateTimeField()  # not tried before
    problem = models.CharField(max_length=300, blank=True)  # of the last attempt

    class Meta:
        ordering: ClassVar = ["-pk"]
        indexes: ClassVar = [
            models.Index(fields=["due"], condition=Q(state=DeliveryState.WAITING), name="delivery_waiting")
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["notification", "channel"], name="delivery_once_per_channel")
        ]

    def __str__(self) -> str:
        return f"{self.channel} {self.state}"
