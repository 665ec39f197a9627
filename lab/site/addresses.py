"""Which addresses are measured, and that none of the site's is left out.

Every route that can be read has its line in `PAGES`, every readable operation of the API in `API`; `missing` names
those that have none, so a new page must be written down here before anything is measured again. Names in braces are
those that `filling.py` prints. Does NOT send anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.security.routes import routes

BOARD = "/leaderboards/{suite}/{op}/{direction}/{device}/"
TASK = "/tasks/{suite}/{op}/{direction}/"
PROFILED = "/recorded/nvidia-h200-rk-1/entries/mnist_linear-forward-cuda-c9dcd946/"

# A route of `urls.py`, and its addresses; "reader " and "staff " before one: with that account logged in.
PAGES: dict[str, Sequence[str]] = {
    "": ("/", "reader /"),
    "live/": ("/live/",),
    "accounts/connections/": ("reader /accounts/connections/",),
    "accounts/connections/login/cancelled/": ("/accounts/connections/login/cancelled/",),
    "accounts/data/": ("reader /accounts/data/",),
    "accounts/data/archive.zip": ("reader /accounts/data/archive.zip",),
    "accounts/notifications/": ("reader /accounts/notifications/",),
    "accounts/notifications/settings/": ("reader /accounts/notifications/settings/",),
    "accounts/quota/": ("reader /accounts/quota/", "reader /accounts/quota/?page=20"),
    "accounts/2fa/": ("reader /accounts/2fa/",),
    "accounts/2fa/webauthn/": ("reader /accounts/2fa/webauthn/",),
    "accounts/confirm-email/": ("/accounts/confirm-email/",),
    "accounts/confirm-email/<key>/": ("/accounts/confirm-email/no-such-key/",),
    "accounts/email/": ("reader /accounts/email/",),
    "accounts/inactive/": ("/accounts/inactive/",),
    "accounts/login/": ("/accounts/login/",),
    "accounts/logout/": ("reader /accounts/logout/",),
    "accounts/password/change/": ("reader /accounts/password/change/",),
    "accounts/password/reset/": ("/accounts/password/reset/",),
    "accounts/password/reset/done/": ("/accounts/password/reset/done/",),
    "accounts/password/reset/key/<uidb36>-<key>/": ("/accounts/password/reset/key/1-no-such-key/",),
    "accounts/password/reset/key/done/": ("/accounts/password/reset/key/done/",),
    "accounts/reauthenticate/": ("reader /accounts/reauthenticate/",),
    "accounts/signup/": ("/accounts/signup/",),
    "accounts/submissions/": ("reader /accounts/submissions/", "reader /accounts/submissions/?page=20"),
    "accounts/teams/": ("reader /accounts/teams/",),
    "accounts/tokens/": ("reader /accounts/tokens/",),
    "badges/<slug:suite>/<slug:op>/<slug:direction>/<slug:device>.svg": (
        "/badges/{suite}/{op}/{direction}/{device}.svg",
    ),
    "changes/": ("/changes/",),
    "changes/<uuid:code>/": ("/changes/{change}/", "/changes/{change}/?page=4"),
    "checks/<uuid:code>/": ("reader /checks/{check}/",),
    "checks/<uuid:code>/live/": ("reader /checks/{check}/live/",),
    "comments/<int:pk>/report/": ("reader /comments/{comment}/report/",),
    "compare/": ("/compare/?methods=", "/compare/?methods={six_methods}&p=1.5"),
    "compare/figure.json": ("/compare/figure.json?methods={six_methods}&device={device}",),
    "contests/": ("/contests/",),
    "contests/new/": ("staff /contests/new/",),
    "contests/<slug:slug>/": ("/contests/{contest}/", "reader /contests/{contest}/"),
    "contests/<slug:slug>/edit/": ("staff /contests/{contest}/edit/",),
    "data/": ("/data/",),
    "evaluations/<uuid:code>/": (
        "/evaluations/{evaluation}/",
        "reader /evaluations/{evaluation}/",
        "/evaluations/{failed}/",
        "/evaluations/{queued}/",
    ),
    "evaluations/<uuid:code>/badge.svg": ("/evaluations/{evaluation}/badge.svg",),
    "evaluations/<uuid:code>/beside/": ("/evaluations/{evaluation}/beside/", "/evaluations/{queued}/beside/"),
    "evaluations/<uuid:code>/live/": ("/evaluations/{evaluation}/live/", "/evaluations/{queued}/live/"),
    "evaluations/<uuid:code>/preview.png": ("/evaluations/{evaluation}/preview.png",),
    "evaluations/<uuid:code>/profile/": ("/evaluations/{evaluation}/profile/", "/evaluations/{failed}/profile/"),
    "evaluations/<uuid:code>/profile/figure.json": ("/evaluations/{evaluation}/profile/figure.json",),
    "evaluations/<uuid:code>/profile/live/": ("/evaluations/{evaluation}/profile/live/",),
    "evaluations/<uuid:code>/profile/profile.json": ("/evaluations/{evaluation}/profile/profile.json",),
    "evaluations/<uuid:code>/report.json": ("/evaluations/{evaluation}/report.json",),
    "evaluations/<uuid:code>/source/": ("/evaluations/{evaluation}/source/",),
    "healthz": ("/healthz",),
    "leaderboards/": ("/leaderboards/", "/leaderboards/?page=10"),
    "leaderboards/records.rss": ("/leaderboards/records.rss",),
    "leaderboards/<slug:suite>/": ("/leaderboards/{suite}/", "/leaderboards/layers/"),
    "leaderboards/<slug:suite>/<slug:op>/<slug:direction>/<slug:device>/": (
        BOARD,
        f"{BOARD}?page=20",
        f"{BOARD}?kind=agent&language=cpp&calls=without",
        f"{BOARD}?sort=error",
    ),
    "leaderboards/<slug:suite>/<slug:op>/<slug:direction>/<slug:device>/figure.json": (f"{BOARD}figure.json",),
    "leaderboards/<slug:suite>/<slug:op>/<slug:direction>/<slug:device>/preview.png": (f"{BOARD}preview.png",),
    "methods/": ("/methods/",),
    "methods/<slug:slug>/": ("/methods/{method}/", "/methods/human/"),
    "metrics": ("/metrics",),
    "moderation/": ("staff /moderation/", "staff /moderation/?list=copies"),
    "moderation/accounts/<str:name>/": ("staff /moderation/accounts/{reader_name}/",),
    "moderation/comments/<int:pk>/": ("staff /moderation/comments/{comment}/",),
    "moderation/log/": ("/moderation/log/", "/moderation/log/?page=10"),
    "moderation/rejudge/": ("staff /moderation/rejudge/",),
    "moderation/rejudge/<uuid:code>/": ("staff /moderation/rejudge/{change}/",),
    "moderation/rejudge/<uuid:code>/live/": ("staff /moderation/rejudge/{change}/live/",),
    "moderation/report/<uuid:code>/": ("reader /moderation/report/{evaluation}/",),
    "moderation/requests/<int:pk>/": ("staff /moderation/requests/{request}/",),
    "moderation/submissions/<uuid:code>/": ("staff /moderation/submissions/{submission}/",),
    "moderation/switches/": ("staff /moderation/switches/",),
    "news/": ("/news/", "staff /news/", "/news/?page=3"),
    "news/<int:pk>/": ("/news/{post}/",),
    "news/<int:pk>/edit/": ("staff /news/{post}/edit/",),
    "news/new/": ("staff /news/new/",),
    "news/newest.atom": ("/news/newest.atom",),
    "people/<str:name>/": ("/people/{reader_name}/", "reader /people/{reader_name}/"),
    "readyz": ("/readyz",),
    "recorded/": ("/recorded/",),
    "recorded/<slug:bundle>/": ("/recorded/nvidia-h200-rk-1/",),
    "recorded/<slug:bundle>/<slug:suite>/<slug:op>/<slug:direction>/": (
        "/recorded/nvidia-h200-rk-1/robust-kbench/resnet_block/forward/",
    ),
    "recorded/<slug:bundle>/entries/<slug:entry>/": (
        "/recorded/nvidia-h200-rk-1/entries/resnet_block-forward-cuda-03127055/",
    ),
    "recorded/<slug:bundle>/entries/<slug:entry>/preview.png": (
        "/recorded/nvidia-h200-rk-1/entries/resnet_block-forward-cuda-03127055/preview.png",
    ),
    **{
        f"recorded/<slug:bundle>/entries/<slug:entry>/profile/{end}": (f"{PROFILED}profile/{end}",)
        for end in ("", "figure.json", "profile.json")
    },
    "requests/": ("/requests/", "reader /requests/?sort=newest", "/requests/?sort=open&page=2"),
    "requests/<int:pk>/": ("/requests/{request}/", "reader /requests/{request}/"),
    "requests/new/": ("reader /requests/new/",),
    "requests/newest.rss": ("/requests/newest.rss",),
    "rules/": ("/rules/",),
    "rules/attacks/": ("/rules/attacks/",),
    "rules/<slug:name>/": ("/rules/rk-2/",),
    "runs/": ("/runs/", "/runs/?page=5"),
    "runs/<uuid:code>/": ("/runs/{run}/", "/runs/{recorded_run}/"),
    "runs/<uuid:code>/candidates/": ("/runs/{run}/candidates/", "/runs/{recorded_run}/candidates/"),
    "runs/<uuid:code>/candidates/<slug:key>/": (
        "/runs/{run}/candidates/{candidate}/",
        "/runs/{recorded_run}/candidates/2-2/",
    ),
    "runs/<uuid:code>/figure.json": ("/runs/{run}/figure.json", "/runs/{recorded_run}/figure.json"),
    "runs/<uuid:code>/live/": ("/runs/{run}/live/", "/runs/{recorded_run}/live/"),
    "runs/<uuid:code>/log.jsonl": ("/runs/{run}/log.jsonl", "/runs/{recorded_run}/log.jsonl"),
    "runs/<uuid:code>/log/": ("/runs/{run}/log/", "/runs/{recorded_run}/log/"),
    "runs/<uuid:code>/moderate/": ("staff /runs/{run}/moderate/", "staff /runs/{run}/moderate/?candidate={candidate}"),
    "runs/<uuid:code>/preview.png": ("/runs/{run}/preview.png",),
    "runs/ablations/": ("/runs/ablations/",),
    "runs/compare/": ("/runs/compare/?a={run}&b={other_run}",),
    "runs/compare/figure.json": ("/runs/compare/figure.json?a={run}&b={other_run}",),
    "runs/new/": ("/runs/new/?task={suite}/{op}/{direction}",),
    "runs/verifiers/": ("/runs/verifiers/",),
    "status/": ("/status/",),
    "submissions/<uuid:code>/": ("reader /submissions/{submission}/",),
    "submissions/diff/": ("/submissions/diff/?a={evaluation}&b={other_evaluation}",),
    "suites/<slug:suite>/imports/": ("/suites/layers/imports/",),
    "tasks/": (
        "/tasks/",
        "/tasks/?q=conv&sort=-best",
        "/tasks/?sort=-entries",
        "/tasks/?page=10",
        "/tasks/?state=open",
    ),
    "tasks/<slug:suite>/<slug:op>/<slug:direction>/": (TASK, f"reader {TASK}"),
    "tasks/<slug:suite>/<slug:op>/<slug:direction>/preview.png": (f"{TASK}preview.png",),
    "tasks/<slug:suite>/<slug:op>/<slug:direction>/starter/": (f"{TASK}starter/",),
    "tasks/<slug:suite>/<slug:op>/<slug:direction>/submit/": (f"{TASK}submit/", f"reader {TASK}submit/"),
    "teams/<str:name>/": ("/teams/{team}/", "reader /teams/{team}/"),
}

API: dict[str, Sequence[str]] = {
    "/api/v1/tasks": ("/api/v1/tasks",),
    "/api/v1/tasks/{suite}/{op}/{direction}": ("/api/v1/tasks/{suite}/{op}/{direction}",),
    "/api/v1/checks/{id}": ("token /api/v1/checks/{check}",),
    "/api/v1/evaluations/{id}": ("/api/v1/evaluations/{evaluation}", "/api/v1/evaluations/{queued}"),
    "/api/v1/evaluations/{id}/profile": ("/api/v1/evaluations/{evaluation}/profile",),
    "/api/v1/evaluations/{id}/source": ("/api/v1/evaluations/{evaluation}/source",),
    "/api/v1/submissions": ("/api/v1/submissions", "token /api/v1/submissions?mine=1&page=20"),
    "/api/v1/submissions/{id}": ("/api/v1/submissions/{submission}",),
    "/api/v1/submissions/{id}/comments": ("/api/v1/submissions/{submission}/comments",),
    "/api/v1/quota": ("token /api/v1/quota",),
    "/api/v1/leaderboards": (
        "/api/v1/leaderboards?task={suite}/{op}/{direction}&device={device}",
        "/api/v1/leaderboards?task={suite}/{op}/{direction}&device={device}&rows=1000&format=csv",
    ),
    "/api/v1/leaderboards/record": ("/api/v1/leaderboards/record?task={suite}/{op}/{direction}&device={device}",),
    "/api/v1/methods": ("/api/v1/methods",),
    "/api/v1/methods/{slug}": ("/api/v1/methods/{method}",),
    "/api/v1/notifications": ("token /api/v1/notifications",),
    "/api/v1/overall": ("/api/v1/overall?suite={suite}&device={device}",),
    "/api/v1/compare": ("/api/v1/compare?methods={six_methods}&device={device}",),
    "/api/v1/recorded": ("/api/v1/recorded",),
    "/api/v1/recorded/{bundle}": ("/api/v1/recorded/nvidia-h200-rk-1",),
    "/api/v1/recorded/{bundle}/entries/{id}": (
        "/api/v1/recorded/nvidia-h200-rk-1/entries/resnet_block-forward-cuda-03127055",
    ),
    "/api/v1/contests": ("/api/v1/contests",),
    "/api/v1/contests/{slug}": ("/api/v1/contests/{contest}",),
    "/api/v1/requests": ("/api/v1/requests", "/api/v1/requests?sort=newest"),
    "/api/v1/requests/{id}": ("/api/v1/requests/{request}",),
    "/api/v1/export": ("/api/v1/export", "/api/v1/export?after={submission}"),
    "/api/v1/status": ("/api/v1/status",),
    "/api/v1/whoami": ("token /api/v1/whoami",),
    "/api/v1/runs": ("/api/v1/runs",),
    "/api/v1/runs/{id}": ("/api/v1/runs/{run}",),
    "/api/v1/runs/{id}/events": ("/api/v1/runs/{run}/events",),
    "/api/v1/runs/{id}/candidates/{key}": ("/api/v1/runs/{run}/candidates/{candidate}",),
}

# Routes that only take a POST, lead elsewhere or (the stream) never end; others measure the heavy ones.
# Ways to a provider are not there without one.
NOT_READ = frozenset(
    {
        *(
            f"accounts/{provider}/login/{end}"
            for provider in ("github", "oidc/<slug:provider_id>")
            for end in ("", "callback/")
        ),
        *(f"accounts/2fa/{page}authenticate/" for page in ("", "re")),
        *(f"accounts/2fa/recovery-codes/{page}" for page in ("", "download/", "generate/")),
        *(f"accounts/2fa/totp/{page}/" for page in ("activate", "deactivate")),
        *(f"accounts/2fa/webauthn/{page}/" for page in ("add", "login", "reauthenticate")),
        *(f"accounts/2fa/webauthn/keys/<int:pk>/{word}/" for word in ("edit", "remove")),
        "accounts/connections/login/error/",
        "accounts/connections/signup/",
        "accounts/login/code/confirm/",
        "accounts/password/set/",
        "accounts/tokens/<int:pk>/revoke/",
        *(f"contests/<slug:slug>/{word}/" for word in ("announce", "cancel", "join")),
        "comments/<int:pk>/delete/",
        *(f"requests/<int:pk>/{word}/" for word in ("accept", "close", "vote")),
        "data/<slug:table>.parquet",  # nothing is written before the night
        "/api/v1/data",
        "evaluations/<uuid:code>/audit/",
        "evaluations/<uuid:code>/comments/",
        "evaluations/<uuid:code>/full/",
        "evaluations/<uuid:code>/cancel/",
        "evaluations/<uuid:code>/profile/ask/",
        "events/",
        "submissions/<uuid:code>/delete/",
        *(f"teams/<str:name>/{word}/" for word in ("answer", "delete", "invite", "leave", "members/<str:account>")),
        "moderation/contest-entries/<int:pk>/",  # no contest has ended
        *(f"moderation/rejudge/<uuid:code>/{word}/" for word in ("cancel", "pause", "resume")),
        *(f"runs/<uuid:code>/{word}/" for word in ("fork", "pause", "resume", "stop")),
    }
)
READERS = ("reader", "staff", "token")


@dataclass(frozen=True)
class Address:
    """What is asked for, and as whom: with the session of an account, with a token, or as nobody."""

    path: str
    reader: str = ""

    def headers(self, names: Mapping[str, Any]) -> dict[str, str]:
        if self.reader == "token":
            return {"Authorization": f"Bearer {names['token']}"}
        return {"Cookie": f"sessionid={names[self.reader]['session']}"} if self.reader else {}


def addresses(names: Mapping[str, Any]) -> list[Address]:
    """All of them, in the order of the tables."""
    words = {
        **{key: value for key, value in names.items() if isinstance(value, str)},
        "reader_name": names["reader"]["name"],
        "six_methods": ",".join(names["methods"][:6]),
    }
    return [_address(text, words) for table in (PAGES, API) for texts in table.values() for text in texts]


def _address(text: str, words: Mapping[str, str]) -> Address:
    reader, _, path = text.rpartition(" ")
    return Address(path.format_map(words), reader)


def missing(operations: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Routes and readable operations of the API (`paths` of its document) that no table knows."""
    readable = {path for path, methods in operations.items() if "get" in methods}
    return sorted({*routes(), *readable} - {*PAGES, *API, *NOT_READ})


def unknown(operations: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Lines of the tables that the site has nothing for."""
    return sorted({*PAGES, *API, *NOT_READ} - {*routes(), *operations})
