"""RSS: the newest records, which are the first places of the current boards, and the newest requests.

Does NOT list what is private, hidden, under review or recorded elsewhere.
"""

from datetime import datetime
from typing import Any

from django.contrib.syndication.views import Feed
from django.urls import reverse_lazy

from benchmarks import selectors
from benchmarks.models import KernelRequest, Standing
from benchmarks.recorded.reports import one_line
from benchmarks.requests import lists
from benchmarks.templatetags.kbench import holder


class RecordFeed(Feed[Standing, Any]):
    """One item per board, the newest record first."""

    title = "kbench: records"
    link = reverse_lazy("leaderboards")
    description = "The fastest verified kernel of each task and device, newest first."

    def items(self) -> list[Standing]:
        return selectors.newest_records()

    def item_title(self, item: Any) -> str:
        name = item.task_version.task.name
        return one_line(f"{name} on {item.device_kind.slug}: {item.score:.2f}× by {holder(item.evaluation)}", 200)

    def item_description(self, item: Standing) -> str:
        method = item.evaluation.submission.method.title
        interval = f"{item.score_lo:.2f}× to {item.score_hi:.2f}×"
        return one_line(f"{interval} over the stronger of PyTorch eager and torch.compile. Method: {method}.", 500)

    def item_link(self, item: Standing) -> str:
        return item.evaluation.get_absolute_url()

    def item_pubdate(self, item: Standing) -> datetime:
        return item.verified_at


class RequestFeed(Feed[KernelRequest, Any]):
    """The newest open requests."""

    title = "kbench: requests"
    link = reverse_lazy("requests")
    description = "Kernels that somebody wants, newest first."

    def items(self) -> list[KernelRequest]:
        return lists.newest_requests()

    def item_title(self, item: Any) -> str:
        return one_line(item.title, 200)

    def item_description(self, item: KernelRequest) -> str:
        return one_line(item.reason, 500)

    def item_link(self, item: KernelRequest) -> str:
        return item.get_absolute_url()

    def item_pubdate(self, item: KernelRequest) -> datetime | None:
        return item.opened
