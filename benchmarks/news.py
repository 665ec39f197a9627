"""News posts: written by staff as drafts, published, changed and taken back.

A draft is for staff alone. Does NOT turn a text into HTML (`templatetags/texts.py`).
"""

from typing import Any

from django import forms
from django.contrib.auth.models import AnonymousUser, User
from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.http import Http404
from django.utils import timezone

from .comments import cleaned, is_blank
from .models import NewsPost

TEXT_MAX_CHARS = 20_000
PAGE_ROWS, FEED_ROWS, DRAFTS_SHOWN = 20, 30, 50
Reader = User | AnonymousUser


class NewsForm(forms.Form):
    """A post; `shown` publishes it or takes it back."""

    title = forms.CharField(max_length=120)
    text = forms.CharField(
        max_length=TEXT_MAX_CHARS,
        widget=forms.Textarea({"rows": 12}),
        help_text="Plain text. An empty line begins a paragraph, and addresses of pages become links.",
    )
    shown = forms.BooleanField(label="Published: everybody can read it", required=False)

    def clean_title(self) -> str:
        return _visible(" ".join(self.cleaned_data["title"].split()))

    def clean_text(self) -> str:
        return _visible(self.cleaned_data["text"])


def _visible(text: str) -> str:
    text = cleaned(text)
    if is_blank(text):
        raise forms.ValidationError("The text has no visible characters.")
    return text


def published() -> QuerySet[NewsPost]:
    return NewsPost.objects.filter(published__isnull=False)


def posts(page: int | str = 1) -> Page[Any]:
    """Published ones, newest first."""
    return Paginator(published(), PAGE_ROWS).get_page(page)


def drafts(reader: Reader) -> list[NewsPost]:
    """For staff, newest first; nobody else has any."""
    if not _is_staff(reader):
        return []
    return list(NewsPost.objects.filter(published=None).defer("text").order_by("-pk")[:DRAFTS_SHOWN])


def newest_posts(count: int = FEED_ROWS) -> list[NewsPost]:
    return list(published()[:count])


def post_for(reader: Reader, pk: int) -> NewsPost:
    """Raises Http404, for a draft to all but staff."""
    found = NewsPost.objects.filter(pk=pk).first()
    if found is None or (found.published is None and not _is_staff(reader)):
        raise Http404("There is no such post.")
    return found


def post_save(title: str, text: str, *, shown: bool, by: User, post: NewsPost | None = None) -> NewsPost:
    """A new post, or other words of one. It keeps the day on which it was first published until it is taken back."""
    now = timezone.now()
    post = post or NewsPost(created_by=by)
    said_anew = post.published is not None and (post.title, post.text) != (title, text)
    post.title, post.text = title, text
    post.changed = (now if said_anew else post.changed) if shown else None
    post.published = (post.published or now) if shown else None
    post.save()
    return post


def _is_staff(reader: Reader) -> bool:
    return reader.is_authenticated and reader.is_staff
