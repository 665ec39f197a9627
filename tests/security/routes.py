"""Every address of the site, as the resolver knows it, with the words filled in that it asks for.

Does NOT know who may read what: that is `expected.py`.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from django.urls import URLPattern, URLResolver, get_resolver

from .world import World

PLACEHOLDER = re.compile(r"<(?:\w+:)?(\w+)>")
API, ADMIN = "api/v1/", "admin/"


def routes() -> list[str]:
    """As they are written in the `urls.py`, `evaluations/<uuid:code>/`; the API's and the admin's are left out."""
    found = set(_walk(get_resolver().url_patterns, ""))
    return sorted(_plain(route) for route in found if not route.startswith((API, ADMIN)))


def _plain(route: str) -> str:
    """A route of allauth that is a regular expression, written like the others."""
    return re.sub(r"\(\?P<(\w+)>[^)]*\)", r"<\1>", route).replace("^", "").replace("$", "")


def admin_routes() -> list[str]:
    return sorted(route for route in set(_walk(get_resolver().url_patterns, "")) if route.startswith(ADMIN))


def _walk(patterns: list[Any], before: str) -> Iterator[str]:
    for pattern in patterns:
        route = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern.url_patterns, route)
        elif isinstance(pattern, URLPattern):
            yield route


def path_of(route: str, world: World) -> str:
    """The address of what is most private among the things that the route can name."""
    words = _words(route, world)
    return "/" + PLACEHOLDER.sub(lambda found: str(words[found[1]]), route)


def _words(route: str, world: World) -> dict[str, Any]:
    words = {"suite": "robust-kbench", "op": "mnist_linear_relu", "direction": "forward", "device": "cpu-avx2"}
    words |= {"slug": "human", "name": "rk-2", "ruleset": "rk-2", "pk": 1, "wish": "stop", "table": "submissions"}
    named = {
        "contests/": {"slug": world.contest.slug},
        "checks/": {"code": world.check.code},
        "runs/": {"code": world.run.code, "key": world.candidate.key},
        "comments/": {"pk": world.comment.pk},
        "news/": {"pk": world.draft_post.pk},
        "requests/": {"pk": world.request.pk, "code": world.request.pk},
        "moderation/requests/": {"pk": world.request.pk},
        "moderation/comments/": {"pk": world.comment.pk},
        "accounts/tokens/": {"pk": world.token.pk},
        "accounts/": {"key": "no-such-key", "uidb36": "1", "provider_id": "openid"},
        "submissions/": {"code": world.private.submission.code},
        "moderation/rejudge/": {"code": world.batch.code},
        "teams/": {"name": quote(world.team.name), "account": world.stranger.username},
        "people/": {"name": quote(world.owner.username)},
        "moderation/accounts/": {"name": world.stranger.username},
        "moderation/submissions/": {"code": world.hidden.submission.code},
        "changes/": {"code": world.batch.code},
    }
    shown = next((item for start, item in named.items() if route.startswith(start)), {"code": world.private.code})
    if "recorded/" in route:
        entry = world.recorded
        named_here = {"bundle": entry.bundle.name, "entry": entry.name, "id": entry.name}
        return {**named_here, "suite": entry.suite, "op": entry.op, "direction": entry.direction}
    return {**words, **shown, "id": shown.get("code")}


def path_of_operation(path: str, world: World) -> str:
    """The same for an operation of the API, `/api/v1/evaluations/{code}`."""
    route = path.lstrip("/").replace("{", "<").replace("}", ">").removeprefix(API)
    return f"/{API}{path_of(route, world).lstrip('/')}"
