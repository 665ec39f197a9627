"""The site through the shipped nginx configuration: TLS, headers, static files, the limit of uploads, event streams."""

import json
import re

import httpx2
import pytest

from .installed import CERTIFICATE, HOST, METRICS_TOKEN, InstalledSite

pytestmark = pytest.mark.deployment
OUTSIDE = "192.0.2.7"  # an address that no rule of nginx allows


def curl(site: InstalledSite, *words: str, check: bool = True) -> str:
    return site.machine.run("curl", "--silent", "--show-error", "--cacert", CERTIFICATE, *words, check=check)


def test_the_site_is_reached_over_tls_and_http2(site: InstalledSite) -> None:
    assert site.ask("/").status_code == 200
    said = curl(site, "--head", f"https://{HOST}/").splitlines()
    assert said[0].startswith("HTTP/2 200")


def test_old_versions_of_tls_are_refused(site: InstalledSite) -> None:
    code = "%{http_code}"
    old = ("--tls-max", "1.1", "--ciphers", "DEFAULT@SECLEVEL=0", "--output", "/dev/null", "--write-out", code)
    assert curl(site, *old, f"https://{HOST}/", check=False) == "000"


def test_plain_http_leads_to_the_site_whatever_host_is_asked_for(site: InstalledSite) -> None:
    for host in (HOST, "evil.example"):
        said = curl(
            site, "--head", "--header", f"Host: {host}", "--resolve", f"{HOST}:80:127.0.0.1", f"http://{HOST}/live/"
        )
        assert host != HOST or f"Location: https://{HOST}/live/" in said
        assert "https://evil.example" not in said


def test_pages_carry_the_security_headers(site: InstalledSite) -> None:
    headers = site.ask("/").headers
    assert headers["Strict-Transport-Security"] == "max-age=31536000; includeSubDomains"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Server"] == "nginx"


def test_a_form_works_through_the_proxy(site: InstalledSite) -> None:
    """Its origin is trusted, its cookies are sent over TLS alone, and the log-in is refused for the right reason."""

    def log_in() -> httpx2.Response:
        with site.client() as client:
            page = client.get("/accounts/login/")
            assert "secure" in page.headers["Set-Cookie"].lower()
            field = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
            assert field
            form = {"csrfmiddlewaretoken": field[1], "login": "nobody", "password": "wrong password"}
            cookies = page.headers["Set-Cookie"].partition(";")[0]
            headers = {"Origin": f"https://{HOST}", "Cookie": cookies}
            return client.post("/accounts/login/", data=form, headers=headers)

    with site.machine.threads(1) as threads:
        answer = threads.submit(log_in).result()
    assert answer.status_code == 200
    assert "correct" in answer.text


def test_an_upload_beyond_the_limit_gets_the_page_of_the_site(site: InstalledSite) -> None:
    page = site.ask("/submit/", "POST", content=b"x" * (9 << 20))
    assert page.status_code == 413
    assert "Nothing was saved" in page.text
    told = site.ask("/api/v1/submissions", "POST", content=b"x" * (9 << 20))
    assert (told.status_code, json.loads(told.text)["code"]) == (413, "request-too-large")


def test_an_upload_beyond_any_reason_ends_at_the_proxy(site: InstalledSite) -> None:
    announced = ("--request", "POST", "--header", f"Content-Length: {1 << 30}", "--http1.1", "--max-time", "10")
    said = curl(site, *announced, "--head", f"https://{HOST}/submit/", check=False)
    assert said.startswith("HTTP/1.1 413")


def test_health_is_told_outside_and_more_of_it_inside(site: InstalledSite) -> None:
    assert site.ask("/healthz").status_code == 200
    assert site.ask("/readyz").status_code == 200
    metrics = site.ask("/metrics", headers={"Authorization": f"Bearer {METRICS_TOKEN}"})
    assert "kbench_check_ok" in metrics.text
    site.machine.run("ip", "address", "replace", f"{OUTSIDE}/32", "dev", "lo")
    code = ("--output", "/dev/null", "--write-out", "%{http_code}", "--resolve", f"{HOST}:443:{OUTSIDE}")
    for path, expected in (("healthz", "200"), ("readyz", "403"), ("metrics", "403")):
        assert curl(site, *code, "--interface", OUTSIDE, f"https://{HOST}/{path}") == expected


def test_static_files_come_from_nginx(site: InstalledSite) -> None:
    """They are there while no web process is."""
    address = re.search(r'href="(/static/[^"]+\.css)"', site.ask("/").text)
    assert address
    before = site.ask(address[1])
    assert "immutable" in before.headers["Cache-Control"]
    units = ("kbench-web.socket", "kbench-web@1", "kbench-web@2")
    site.machine.run("systemctl", "stop", *units)
    try:
        assert site.ask(address[1]).content == before.content
        assert site.ask("/").status_code == 502
    finally:
        site.machine.run("systemctl", "start", *units)
    assert site.ask("/").status_code == 200


def test_events_pass_the_proxy_when_they_happen(site: InstalledSite) -> None:
    """The first one is read while the evaluation still runs, and the last one ends the stream."""
    code = site.submit("// seconds: 3")
    names, state_at_first = [], None

    def follow() -> None:
        nonlocal state_at_first
        with site.client() as client, client.stream("GET", f"/events/?topics=evaluation:{code}") as stream:
            assert stream.headers["Content-Type"] == "text/event-stream"
            for line in stream.iter_lines():
                if line.startswith("event: "):
                    state_at_first = state_at_first or client.get(f"/api/v1/evaluations/{code}").json()["state"]
                    names.append(line.removeprefix("event: "))

    with site.machine.threads(1) as threads:
        threads.submit(follow).result()
    assert state_at_first not in (None, "done")
    assert names[-1] == "end"
    assert "evaluation-progress" in names
