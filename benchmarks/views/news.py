"""News: the list, one post, and the form on which staff write one. Does NOT make the feed (`feeds.py`)."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from benchmarks import news

from .parts.staff import person, staff_only


def news_list(request: HttpRequest) -> HttpResponse:
    context = {"rows": news.posts(request.GET.get("page", 1)), "drafts": news.drafts(request.user)}
    return render(request, "news/list.html", context)


def news_post(request: HttpRequest, pk: int) -> HttpResponse:
    return render(request, "news/detail.html", {"post": news.post_for(request.user, pk)})


@staff_only
def news_edit(request: HttpRequest, pk: int | None = None) -> HttpResponse:
    """A new post, or an earlier one."""
    post = None if pk is None else news.post_for(request.user, pk)
    now = {"title": post.title, "text": post.text, "shown": post.published is not None} if post else {}
    form = news.NewsForm(request.POST if request.method == "POST" else None, initial=now)
    if form.is_valid():
        return redirect(news.post_save(**form.cleaned_data, by=person(request), post=post))
    return render(request, "news/edit.html", {"form": form, "post": post})
