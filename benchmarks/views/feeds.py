"""Feeds: the newest records, which are the first places of the current boards, the newest requests, and news.

Readers show what a feed describes as HTML, so every description is escaped. Does NOT list what is private, hidden,
under review or recorded elsewhere.
"""

from datetime import datetime
from typing import Any

from django.contrib.syndication.views import Feed
from django.template.defaultfilters import linebreaks_filter
from django.urls import reverse_lazy
from django.utils.feedgenerator import Atom1Feed
from django.utils.html import escape

from benchmarks import news, selectors
from benchmarks.comments import cleaned
from benchmarks.models import KernelRequest, NewsPost, Standing
from benchmarks.recorded.reports import one_line
from benchmarks.requests import lists
from benchmarks.templatetags.kbench import holder
from benchmarks.templatetags.texts import plain_text


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
        text = f"{interval} over the stronger of PyTorch eager and torch.compile. Method: {method}."
        return escape(one_line(text, 500))

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
        return escape(one_line(item.reason, 500))

    def item_link(self, item: KernelRequest) -> str:
        return item.get_absolute_url()

    def item_pubdate(self, item: KernelRequest) -> datetime | None:
        return item.opened


class NewsFeed(Feed[NewsPost, Any]):
    """The newest posts with their whole text."""

    feed_type = Atom1Feed
    title = "kbench: news"
    link = reverse_lazy("news")
    subtitle = "What staff write about this site, newest first."

    def items(self) -> list[NewsPost]:
        return news.newest_posts()

    def item_title(self, item: Any) -> str:
        return one_line(item.title, 200)

    def item_description(self, item: NewsPost) -> str:
        return linebreaks_filter(plain_text(cleaned(item.text)))  # an older post may hold what no XML may

    def item_link(self, item: NewsPost) -> str:
        return item.get_absolute_url()

    def item_pubdate(self, item: NewsPost) -> datetime | None:
        return item.published

    def item_updateddate(self, item: NewsPost) -> datetime | None:
        return item.changed or item.published
