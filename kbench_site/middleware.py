"""Headers of every answer, static files under ASGI, and tokens in place of sessions for programs.

The content security policy allows nothing inline and nothing from elsewhere; a page can have one nonce for the style
element that its editor makes. Does NOT cover transport security, which `settings.py` turns on for a public site.
"""

from collections.abc import Callable
from contextlib import closing
from http import HTTPStatus

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from whitenoise.middleware import WhiteNoiseMiddleware

from benchmarks.accounts.tokens import token_find
from benchmarks.api.bodies import is_storable
from benchmarks.api.problems import CONTENT_TYPE, Problem, problem, problem_of

API = "/api/"
OF_TOKENS = (API, "/events/")  # elsewhere a token means nothing: a page would let it do whatever its owner may do

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)

GetResponse = Callable[[HttpRequest], HttpResponseBase]


def content_security_policy(get_response: GetResponse) -> GetResponse:
    """Sets the policy unless the view has set its own. A view may set `request.style_nonce`, new for each answer."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        nonce = getattr(request, "style_nonce", None)
        policy = POLICY.replace("style-src 'self'", f"style-src 'self' 'nonce-{nonce}'") if nonce else POLICY
        response.headers.setdefault("Content-Security-Policy", policy)
        response.headers.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
        return response

    return middleware


def bearer_tokens(get_response: GetResponse) -> GetResponse:
    """Below /api/ and /events/ a request with a token acts for its owner.

    Below /api/ a session counts for nothing, and errors are JSON.
    """

    def middleware(request: HttpRequest) -> HttpResponseBase:
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        of_api = request.path.startswith(API)
        if scheme.lower() == "bearer" and request.path.startswith(OF_TOKENS):
            token = token_find(text.strip())
            if token is None:
                return problem(Problem(HTTPStatus.UNAUTHORIZED, "invalid-token", "The token is unknown or expired."))
            request.api_token = token  # type: ignore[attr-defined]
            _act_as(request, token.owner)
        elif of_api:
            _act_as(request, AnonymousUser())
        if of_api and not (is_storable(request.path) and _has_storable_query(request)):
            return problem(Problem(HTTPStatus.BAD_REQUEST, "bad-request", "The address contains NUL or is not UTF-8."))
        if not _has_storable_query(request):
            raise BadRequest("The address contains NUL or is not UTF-8.")
        response = get_response(request)
        failed = of_api and response.status_code >= HTTPStatus.BAD_REQUEST
        told = response.headers.get("Content-Type") == CONTENT_TYPE
        return problem_of(response) if failed and not told else response

    return middleware


def _has_storable_query(request: HttpRequest) -> bool:
    """Whether the query is text that a database can look for. A path of a page is looked at by its own route."""
    return all(is_storable(text) for name, texts in request.GET.lists() for text in (name, *texts))


def _act_as(request: HttpRequest, user: AbstractBaseUser | AnonymousUser) -> None:
    async def auser() -> AbstractBaseUser | AnonymousUser:
        return user

    request.user = user  # type: ignore[assignment]
    request.auser = auser  # type: ignore[assignment]


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]
    """Whitenoise streams from a synchronous iterator, which ASGI handlers warn about; its files are small."""

    @staticmethod
    def serve(static_file: object, request: HttpRequest) -> HttpResponse:
        response = WhiteNoiseMiddleware.serve(static_file, request)
        with closing(response):
            whole = HttpResponse(b"".join(response.streaming_content), status=response.status_code)
        whole.headers = response.headers
        return whole
