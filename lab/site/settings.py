"""Settings of a site that is measured: that of the tests with a fake judge, and every answer says its queries.

Queries of threads that a stream or a long wait uses are not counted. Does NOT change what is measured otherwise.
"""

from collections.abc import Callable
from typing import Any

from django.db import connection
from django.http import HttpRequest, HttpResponseBase

from lab.site import QUERIES
from tests.stack_settings import *  # noqa: F403
from tests.stack_settings import MIDDLEWARE as OF_THE_SITE

MIDDLEWARE = ["lab.site.settings.queries_counted", *OF_THE_SITE]
STATEMENTS_NOT_COUNTED = ("SAVEPOINT", "RELEASE", "BEGIN", "PRAGMA")


def queries_counted(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Any:
    def middleware(request: HttpRequest) -> HttpResponseBase:
        counted = 0

        def count(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            nonlocal counted
            counted += not sql.startswith(STATEMENTS_NOT_COUNTED)
            return execute(sql, params, many, context)

        with connection.execute_wrapper(count):
            response = get_response(request)
        response.headers[QUERIES] = str(counted)
        return response

    return middleware
