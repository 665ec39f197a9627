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
SAID = Page(NONE, "302 302 302 302")  # posted from a page, which then says what was done or refused: see test_writing
PAGES: dict[str, Page] = {
    "": OPEN,
    "accounts/login/": OPEN,
    "accounts/logout/": SAID,
    "accounts/signup/": OPEN,
    "accounts/submissions/": OPEN,
    "accounts/tokens/": Page("302 200 200 200", "302 200 200 200"),
    "accounts/tokens/<int:pk>/revoke/": SAID,
    "evaluations/<uuid:code>/": OWN,
    "evaluations/<uuid:code>/audit/": Page("405 405 405 405", "404 404 302 404"),
    "evaluations/<uuid:code>/cancel/": Page("405 405 405 405", "404 404 302 404"),
    "evaluations/<uuid:code>/live/": OWN,
    "evaluations/<uuid:code>/report.json": OWN,
    "evaluations/<uuid:code>/source/": OWN,
    "events/": Page("400 400 400 400", "400 400 400 400"),
    "leaderboards/": OPEN,
    "leaderboards/<slug:suite>/<slug:op>/<slug:direction>/<slug:device>/": OPEN,
    "live/": OPEN,
    "rules/": OPEN,
    "runs/": OPEN,
    "runs/<uuid:code>/": OPEN,
    "runs/<uuid:code>/candidates/": OPEN,
    "runs/<uuid:code>/candidates/<slug:key>/": OPEN,
    "runs/<uuid:code>/fork/": SAID,
    "runs/<uuid:code>/live/": OPEN,
    "runs/<uuid:code>/log.jsonl": OPEN,
    "runs/<uuid:code>/log/": OPEN,
    "runs/<uuid:code>/pause/": SAID,
    "runs/<uuid:code>/resume/": SAID,
    "runs/<uuid:code>/stop/": SAID,
    "runs/compare/": OPEN,
    "runs/new/": OPEN,
    "runs/verifiers/": OPEN,
    "status/": OPEN,
    "tasks/": OPEN,
    "tasks/<slug:suite>/<slug:op>/<slug:direction>/": OPEN,
    "tasks/<slug:suite>/<slug:op>/<slug:direction>/starter/": OPEN,
    "tasks/<slug:suite>/<slug:op>/<slug:direction>/submit/": OPEN,
}

# no token, a stranger's, the owner's for reading only, the owner's, one of staff
OPERATIONS: dict[str, str] = {
    "GET /api/v1/evaluations/{id}": "404 404 200 200 404",
    "GET /api/v1/leaderboards": "422 422 422 422 422",
    "GET /api/v1/runs": "200 200 200 200 200",
    "GET /api/v1/runs/{id}": "200 200 200 200 200",
    "GET /api/v1/runs/{id}/events": "200 200 200 200 200",
    "GET /api/v1/status": "200 200 200 200 200",
    "GET /api/v1/submissions/{id}": "404 404 200 200 404",
    "GET /api/v1/tasks": "200 200 200 200 200",
    "GET /api/v1/tasks/{suite}/{op}/{direction}": "200 200 200 200 200",
    "POST /api/v1/evaluations/{id}/cancel": "401 404 403 200 404",
    "POST /api/v1/runs": "401 422 422 422 422",
    "POST /api/v1/runs/{id}/fork": "401 422 422 422 422",
    "POST /api/v1/runs/{id}/{wish}": "401 403 403 409 409",
    "POST /api/v1/submissions": "401 422 422 422 422",
}
