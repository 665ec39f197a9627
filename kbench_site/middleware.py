"""Headers that every answer carries, and static files under ASGI.

The content security policy allows nothing inline and nothing from elsewhere. Does NOT cover transport security,
which `settings.py` turns on for a public site.
"""

from collections.abc import Callable
from contextlib import closing

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from whitenoise.middleware import WhiteNoiseMiddleware

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
    """Sets the policy unless the view has set its own."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        response.headers.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
        return response

    return middleware


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]
    """Whitenoise streams from a synchronous iterator, which ASGI handlers warn about; its files are small."""

    @staticmethod
    def serve(static_file: object, request: HttpRequest) -> HttpResponse:
        response = WhiteNoiseMiddleware.serve(static_file, request)
        with closing(response):
            whole = HttpResponse(b"".join(response.streaming_content), status=response.status_code)
        whole.headers = response.headers
        return whole
