"""The table of permissions: for every address the answer to each reader, in the order of `world.READERS`.

What an address names is the most private thing it can name (`routes.path_of`), so 404 for a stranger is the point.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    """What a GET and a POST without any field answer to anonymous, stranger, owner and staff."""

    get: str
    post: str = "405 405 405 405"


ALL, NONE = "200 200 200 200", "405 405 405 405"
OPEN = Page(ALL, ALL)  # a page of the public; posting to it is reading it
OWN = Page("404 404 200 404", "404 404 200 404")  # only its owner reads it
SIGNED_IN = Page("302 200 200 200", "302 200 200 200")  # one's own
STAFF = Page("302 403 403 200", "302 403 403 200")
STAFF_SAYS = Page(NONE, "302 403 403 302")
# Posted from a page, which then says what was done or refused: that nothing was done is a test of its own.
SAID = Page(NONE, "302 302 302 302")
NOTHING_DRAWN = Page("404 404 404 404", "404 404 404 404")  # the figure of a page that is asked for nothing
SAID_EITHER_WAY = Page("302 302 302 302", "302 302 302 302")
OPEN_TO_READ = Page(ALL)
REFUSED = Page("401 401 401 401", "401 401 401 401")
ENTRANCE = Page("200 302 302 302", "200 302 302 302")  # whoever is logged in is led on
IN_TEAM = Page(NONE, "302 404 302 404")  # its owner is told what is missing
PAGES: dict[str, Page] = {
    "": OPEN,
    "accounts/2fa/": Page("302 200 200 200", "302 405 405 405"),
    "accounts/2fa/authenticate/": SAID_EITHER_WAY,  # nobody has shown a password
    "accounts/2fa/reauthenticate/": SAID_EITHER_WAY,
    "accounts/2fa/recovery-codes/": Page("302 404 404 404", "302 405 405 405"),  # without a second factor: none
    "accounts/2fa/recovery-codes/download/": Page("302 404 404 404", "302 404 404 404"),
    "accounts/2fa/recovery-codes/generate/": SAID_EITHER_WAY,  # only after the password was asked for again
    "accounts/2fa/totp/activate/": SAID_EITHER_WAY,
    "accounts/2fa/totp/deactivate/": Page("302 404 404 404", "302 404 404 404"),
    "accounts/2fa/webauthn/": Page("302 200 200 200", "302 405 405 405"),
    "accounts/2fa/webauthn/add/": SAID_EITHER_WAY,
    "accounts/2fa/webauthn/keys/<int:pk>/edit/": SAID_EITHER_WAY,
    "accounts/2fa/webauthn/keys/<int:pk>/remove/": SAID_EITHER_WAY,
    "accounts/2fa/webauthn/login/": SAID_EITHER_WAY,  # without the answer of a key: back to the log-in
    "accounts/2fa/webauthn/reauthenticate/": SAID_EITHER_WAY,
    "accounts/connections/": SIGNED_IN,
    "accounts/connections/login/cancelled/": OPEN_TO_READ,
    "accounts/connections/login/error/": Page("401 401 401 401"),
    "accounts/connections/signup/": SAID_EITHER_WAY,  # nobody has come from a provider
    "accounts/data/": SIGNED_IN,
    "accounts/data/archive.zip": SIGNED_IN,
    "accounts/confirm-email/": OPEN_TO_READ,
    "accounts/confirm-email/<key>/": Page(ALL, "404 404 404 404"),  # without a key that was sent: nothing
    "accounts/email/": Page("302 200 200 200", "302 302 302 302"),
    "accounts/github/login/": OPEN,
    "accounts/github/login/callback/": REFUSED,  # without a state of this session: a page that says so
    "accounts/inactive/": OPEN_TO_READ,
    "accounts/login/": ENTRANCE,
    "accounts/login/code/confirm/": SAID_EITHER_WAY,  # never begun: this site sends no codes
    "accounts/logout/": Page("302 200 200 200", "302 302 302 302"),
    "accounts/notifications/": Page("302 200 200 200", "302 302 302 302"),
    "accounts/notifications/settings/": Page("302 200 200 200", "302 302 302 302"),
    "accounts/oidc/<slug:provider_id>/login/": Page(ALL, "502 502 502 502"),  # nothing listens at that address
    "accounts/oidc/<slug:provider_id>/login/callback/": REFUSED,
    "accounts/password/change/": SIGNED_IN,
    "accounts/password/reset/": OPEN,
    "accounts/password/reset/done/": OPEN_TO_READ,
    "accounts/password/reset/key/<uidb36>-<key>/": OPEN,  # without a key that was sent: a page that says so
    "accounts/password/reset/key/done/": OPEN_TO_READ,
    "accounts/password/set/": SAID_EITHER_WAY,  # for accounts without a password
    "accounts/reauthenticate/": SIGNED_IN,
    "accounts/quota/": OPEN,
    "accounts/signup/": ENTRANCE,
    "accounts/submissions/": OPEN,
    "accounts/teams/": SIGNED_IN,
    "accounts/tokens/": Page("302 200 200 200", "302 302 302 302"),  # the password is asked for again
    "accounts/tokens/<int:pk>/revoke/": SAID,
    "badges/<slug:suite>/<slug:op>/<slug:direction>/<slug:device>.svg": OPEN,
    "changes/": OPEN,
    "changes/<uuid:code>/": OPEN,
    "checks/<uuid:code>/": OWN,
    "checks/<uuid:code>/live/": OWN,
    "comments/<int:pk>/delete/": Page(NONE, "302 404 302 404"),  # the submission is hidden, the comment its author's
    "comments/<int:pk>/report/": Page("302 404 404 404", "302 404 404 404"),
    "compare/": OPEN,
    "compare/figure.json": NOTHING_DRAWN,
    "contests/": OPEN,
    "contests/new/": STAFF,
    "contests/<slug:slug>/": Page("404 404 404 200", "404 404 404 200"),  # a draft
    "contests/<slug:slug>/announce/": STAFF_SAYS,
    "contests/<slug:slug>/cancel/": STAFF_SAYS,
    "contests/<slug:slug>/edit/": STAFF,
    "contests/<slug:slug>/join/": Page(NONE, "302 404 404 302"),
    "data/": OPEN_TO_READ,
    "data/<slug:table>.parquet": Page("404 404 404 404"),  # nothing has been written yet
    "evaluations/<uuid:code>/": OWN,
    "evaluations/<uuid:code>/audit/": Page("405 405 405 405", "404 404 302 404"),
    "evaluations/<uuid:code>/badge.svg": Page("404 404 404 404", "404 404 404 404"),
    "evaluations/<uuid:code>/beside/": OWN,
    "evaluations/<uuid:code>/cancel/": Page("405 405 405 405", "404 404 302 404"),
    "evaluations/<uuid:code>/comments/": Page(NONE, "302 404 404 404"),  # a private one has none
    "evaluations/<uuid:code>/full/": Page("405 405 405 405", "404 404 302 404"),
    "evaluations/<uuid:code>/live/": OWN,
    "evaluations/<uuid:code>/preview.png": OPEN,  # of what is private: the general picture
    "evaluations/<uuid:code>/profile/": OWN,
    "evaluations/<uuid:code>/profile/ask/": Page("405 405 405 405", "404 404 302 404"),
    "evaluations/<uuid:code>/profile/figure.json": Page("404 404 404 404", "404 404 404 404"),
    "evaluations/<uuid:code>/profile/live/": OWN,
    "evaluations/<uuid:code>/profile/profile.json": Page("404 404 404 404", "404 404 404 404"),
    "evaluations/<uuid:code>/report.json": OWN,
    "evaluations/<uuid:code>/source/": OWN,
    "events/": Page("400 400 400 400", "400 400 400 400"),
    "healthz": Page("200 200 200 200"),
    "leaderboards/": OPEN,
    "leaderboards/<slug:suite>/": OPEN,
    "leaderboards/records.rss": OPEN,
    "leaderboards/<slug:suite>/<slug:op>/<slug:direction>/<slug:device>/": OPEN,
    "leaderboards/<slug:suite>/<slug:op>/<slug:direction>/<slug:device>/figure.json": OPEN,
    "leaderboards/<slug:suite>/<slug:op>/<slug:direction>/<slug:device>/preview.png": OPEN,
    "live/": OPEN,
    "methods/": OPEN,
    "methods/<slug:slug>/": OPEN,
    "metrics": Page("200 200 200 200"),
    "moderation/": STAFF,
    "moderation/accounts/<str:name>/": STAFF,
    "moderation/comments/<int:pk>/": STAFF,
    "moderation/contest-entries/<int:pk>/": Page("302 403 403 404", "302 403 403 404"),  # no contest has ended
    "moderation/requests/<int:pk>/": Page("302 403 403 404", "302 403 403 404"),  # no task was made of it
    "moderation/log/": OPEN,
    "moderation/rejudge/": STAFF,
    "moderation/rejudge/<uuid:code>/": STAFF,
    "moderation/rejudge/<uuid:code>/cancel/": STAFF_SAYS,
    "moderation/rejudge/<uuid:code>/live/": STAFF,
    "moderation/rejudge/<uuid:code>/pause/": STAFF_SAYS,
    "moderation/rejudge/<uuid:code>/resume/": STAFF_SAYS,
    "moderation/report/<uuid:code>/": Page("302 404 200 404", "302 404 200 404"),
    "moderation/submissions/<uuid:code>/": STAFF,
    "moderation/switches/": STAFF,
    "news/": OPEN,
    "news/<int:pk>/": Page("404 404 404 200", "404 404 404 200"),  # a draft
    "news/<int:pk>/edit/": STAFF,
    "news/new/": STAFF,
    "news/newest.atom": OPEN,
    "people/<str:name>/": OPEN,
    "readyz": Page("200 200 200 200"),
    "recorded/": OPEN,
    "recorded/<slug:bundle>/": OPEN,
    "recorded/<slug:bundle>/<slug:suite>/<slug:op>/<slug:direction>/": OPEN,
    "recorded/<slug:bundle>/entries/<slug:entry>/": OPEN,
    "recorded/<slug:bundle>/entries/<slug:entry>/preview.png": OPEN,
    "recorded/<slug:bundle>/entries/<slug:entry>/profile/": NOTHING_DRAWN,  # its source was never profiled
    "recorded/<slug:bundle>/entries/<slug:entry>/profile/figure.json": NOTHING_DRAWN,
    "recorded/<slug:bundle>/entries/<slug:entry>/profile/profile.json": NOTHING_DRAWN,
    "requests/": OPEN,
    "requests/<int:pk>/": OWN,
    "requests/<int:pk>/accept/": Page(NONE, "302 404 302 404"),
    "requests/<int:pk>/close/": Page(NONE, "302 404 302 404"),
    "requests/<int:pk>/vote/": Page(NONE, "302 404 302 404"),
    "requests/new/": SIGNED_IN,
    "requests/newest.rss": OPEN,
    "rules/": OPEN,
    "rules/attacks/": OPEN,
    "rules/<slug:name>/": OPEN,
    "runs/": OPEN,
    "runs/<uuid:code>/": OPEN,
    "runs/<uuid:code>/candidates/": OPEN,
    "runs/<uuid:code>/candidates/<slug:key>/": OPEN,
    "runs/<uuid:code>/figure.json": OPEN,
    "runs/<uuid:code>/fork/": SAID,
    "runs/<uuid:code>/live/": OPEN,
    "runs/<uuid:code>/log.jsonl": OPEN,
    "runs/<uuid:code>/log/": OPEN,
    "runs/<uuid:code>/moderate/": STAFF,
    "runs/<uuid:code>/pause/": SAID,
    "runs/<uuid:code>/preview.png": OPEN,
    "runs/<uuid:code>/resume/": SAID,
    "runs/<uuid:code>/stop/": SAID,
    "runs/ablations/": OPEN,
    "runs/compare/": OPEN,
    "runs/compare/figure.json": NOTHING_DRAWN,
    "runs/new/": OPEN,
    "runs/verifiers/": OPEN,
    "status/": OPEN,
    "submissions/<uuid:code>/": Page("302 404 200 404", "302 404 200 404"),
    "submissions/<uuid:code>/delete/": Page("302 405 405 405", "302 404 422 404"),
    "submissions/diff/": OPEN,
    "suites/<slug:suite>/imports/": Page("404 404 404 404", "404 404 404 404"),  # nothing was imported here
    "tasks/": OPEN,
    "tasks/<slug:suite>/<slug:op>/<slug:direction>/": OPEN,
    "tasks/<slug:suite>/<slug:op>/<slug:direction>/preview.png": OPEN,
    "tasks/<slug:suite>/<slug:op>/<slug:direction>/starter/": OPEN,
    "tasks/<slug:suite>/<slug:op>/<slug:direction>/submit/": OPEN,
    "teams/<str:name>/": Page("404 404 200 200", "404 404 200 200"),  # nothing public was made for it
    "teams/<str:name>/answer/": Page(NONE, "302 404 404 404"),
    "teams/<str:name>/delete/": IN_TEAM,
    "teams/<str:name>/invite/": Page(NONE, "302 404 200 404"),
    "teams/<str:name>/leave/": IN_TEAM,
    "teams/<str:name>/members/<str:account>/": IN_TEAM,
}

# no token, a stranger's, the owner's for reading only, the owner's, one of staff
OPERATIONS: dict[str, str] = {
    "DELETE /api/v1/submissions/{id}": "401 404 403 204 404",
    "GET /api/v1/checks/{id}": "404 404 200 200 404",
    "GET /api/v1/compare": "422 422 422 422 422",
    "GET /api/v1/contests": "200 200 200 200 200",
    "GET /api/v1/contests/{slug}": "404 404 404 404 200",
    "GET /api/v1/data": "404 404 404 404 404",
    "GET /api/v1/evaluations/{id}": "404 404 200 200 404",
    "GET /api/v1/evaluations/{id}/profile": "404 404 404 404 404",
    "GET /api/v1/evaluations/{id}/source": "404 404 200 200 404",
    "GET /api/v1/export": "200 200 200 200 200",
    "GET /api/v1/leaderboards": "422 422 422 422 422",
    "GET /api/v1/leaderboards/record": "422 422 422 422 422",
    "GET /api/v1/methods": "200 200 200 200 200",
    "GET /api/v1/methods/{slug}": "200 200 200 200 200",
    "GET /api/v1/notifications": "401 200 200 200 200",
    "GET /api/v1/overall": "200 200 200 200 200",
    "GET /api/v1/quota": "200 200 200 200 200",
    "GET /api/v1/recorded": "200 200 200 200 200",
    "GET /api/v1/recorded/{bundle}": "200 200 200 200 200",
    "GET /api/v1/recorded/{bundle}/entries/{id}": "200 200 200 200 200",
    "GET /api/v1/runs": "200 200 200 200 200",
    "GET /api/v1/runs/{id}": "200 200 200 200 200",
    "GET /api/v1/runs/{id}/candidates/{key}": "200 200 200 200 200",
    "GET /api/v1/runs/{id}/events": "200 200 200 200 200",
    "GET /api/v1/requests": "200 200 200 200 200",
    "GET /api/v1/requests/{id}": "404 404 200 200 404",
    "GET /api/v1/status": "200 200 200 200 200",
    "GET /api/v1/submissions": "200 200 200 200 200",
    "GET /api/v1/submissions/{id}": "404 404 200 200 404",
    "GET /api/v1/submissions/{id}/comments": "404 404 404 404 404",
    "GET /api/v1/tasks": "200 200 200 200 200",
    "GET /api/v1/tasks/{suite}/{op}/{direction}": "200 200 200 200 200",
    "GET /api/v1/whoami": "401 200 200 200 200",
    "PATCH /api/v1/submissions/{id}": "401 422 422 422 422",
    "POST /api/v1/contests/{slug}/join": "401 404 403 404 409",
    "POST /api/v1/checks": "401 422 422 422 422",
    "POST /api/v1/evaluations/{id}/cancel": "401 404 403 200 404",
    "POST /api/v1/evaluations/{id}/profile": "401 404 403 409 404",
    "POST /api/v1/notifications/read": "401 200 403 200 200",
    "POST /api/v1/requests": "401 422 422 422 422",
    "POST /api/v1/requests/{id}/vote": "401 422 422 422 422",
    "POST /api/v1/runs": "401 422 422 422 422",
    "POST /api/v1/runs/{id}/candidates": "401 422 422 422 422",
    "POST /api/v1/runs/{id}/close": "401 422 422 422 422",
    "POST /api/v1/runs/{id}/fork": "401 422 422 422 422",
    "POST /api/v1/runs/{id}/{wish}": "401 403 403 409 409",
    "POST /api/v1/submissions/{id}/comments": "401 422 422 422 422",
    "POST /api/v1/submissions": "401 422 422 422 422",
}
