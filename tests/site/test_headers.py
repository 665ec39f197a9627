"""Headers of every answer. What the pages say is in `tests/web`."""

import pytest

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("path", ["/", "/nowhere/", "/admin/login/", "/events/?topics=none"])
def test_nothing_inline_and_nothing_foreign_is_allowed(client, path):
    policy = client.get(path).headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_answers_are_not_sniffed_framed_or_leaked(client):
    headers = client.get("/").headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "same-origin"


def test_static_files_come_whole_and_without_a_stream(client):
    response = client.get("/static/css/tokens.css")
    assert response.status_code == 200
    assert not response.streaming
    assert response.headers["Content-Type"].startswith("text/css")
