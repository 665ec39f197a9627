"""Banners, the queue, the status page, the rules page."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.test import Client
from django.utils import timezone

from benchmarks import news, selectors, switches
from benchmarks.harness import VERDICT_TEXTS, Verdict, default_rules
from benchmarks.models import DeviceKind
from benchmarks.states import Switch
from benchmarks.templatetags.kbench import VERDICT_BADGES

from . import factories


@pytest.mark.parametrize("path", ["/tasks/?q=%00", "/runs/?task=a%00b", "/?%00=1"])
def test_what_no_database_can_look_for_is_a_bad_request(visitor: Client, path: str) -> None:
    """PostgreSQL would make it an error of ours."""
    assert visitor.get(path).status_code == 400


def test_weak_isolation_is_announced_on_every_page(visitor: Client) -> None:
    factories.worker(isolation_strong=False, isolation_text="no user namespaces here")
    assert b"Weak isolation on a judging worker: no user namespaces here" in visitor.get("/rules/").content


def test_a_worker_that_tests_itself_is_announced_until_it_or_another_judges(visitor: Client) -> None:
    testing = factories.worker(state="starting")
    html = " ".join(visitor.get("/").content.decode().split())
    assert f"The worker for {testing.device_kind.title} is starting and testing itself." in html
    assert "worker is testing itself" in html
    assert "no worker online" not in html
    other = factories.worker(state="online")  # the same row, now proven
    assert other.pk == testing.pk
    assert b"tests itself" not in visitor.get("/").content


def test_a_worker_that_was_lost_while_it_tested_itself_is_not_announced(visitor: Client) -> None:
    long_ago = timezone.now() - timedelta(hours=1)
    factories.worker(state="starting", heartbeat=long_ago)
    html = visitor.get("/").content.decode()
    assert "tests itself" not in html
    assert "no worker online" in html


def test_a_pause_is_announced_with_its_reason(visitor: Client) -> None:
    switches.switch_set(Switch.SUBMISSIONS, on=False, message="maintenance until noon")
    assert b"New submissions are paused: maintenance until noon" in visitor.get("/").content


def test_a_notice_of_staff_is_shown(visitor: Client) -> None:
    switches.switch_set(Switch.BANNER, on=True, message="Board 3 is being judged again.")
    assert b"Board 3 is being judged again." in visitor.get("/tasks/").content


def test_a_site_without_worries_shows_no_banner(visitor: Client) -> None:
    factories.worker()
    assert b'class="banners"' not in visitor.get("/").content


def test_the_queue_counts_and_lists_what_is_public(visitor: Client, owner: Any) -> None:
    public = factories.queued()
    private = factories.queued(owner=owner, visibility="private", text=factories.SOURCE + "// p\n")
    html = visitor.get("/live/").content.decode()
    assert "2 waiting" in html
    assert public.get_absolute_url() in html
    assert private.get_absolute_url() not in html


def test_a_queue_that_stands_still_says_why(visitor: Client) -> None:
    factories.queued()
    assert "No cpu-avx2 worker has ever been online." in visitor.get("/live/").content.decode()


def test_each_queue_that_stands_still_says_why_while_another_device_judges(visitor: Client) -> None:
    factories.queued()
    factories.claimed_for_judging()
    for number in range(2):
        options = {"device_kind": factories.gpu_kind(), "language": "cuda"}
        factories.queued(text=f"{factories.SOURCE}// {number}\n", **options)
    html = visitor.get("/live/").content.decode()
    assert html.count("No nvidia-h200 worker has ever been online.") == 1
    assert "No cpu-avx2 worker" not in html


def test_a_claimed_evaluation_moves_from_waiting_to_judged(visitor: Client) -> None:
    factories.queued()
    factories.claimed_for_judging()
    line = selectors.queue_lines()[0]
    assert (line.queued, line.running) == (0, 1)
    assert len(selectors.at_work(AnonymousUser())) == 1


def test_the_home_page_follows_the_queues_of_the_devices_that_there_are(visitor: Client) -> None:
    assert f"?topics=queue:{DeviceKind.objects.get().slug}" in visitor.get("/").content.decode()
    DeviceKind.objects.all().delete()
    html = visitor.get("/").content.decode()
    assert "sse-connect" not in html, "the event stream refuses a reader that names no topic"
    assert "No device kind is set up yet." in html


def test_the_home_page_keeps_its_number_of_queries(visitor: Client, django_assert_num_queries: Any) -> None:
    factories.many_entries(30)
    for number in range(3):
        news.post_save(f"Post {number}", "Words.", shown=True, by=factories.user(f"author{number}"))
    with django_assert_num_queries(12):
        visitor.get("/")


def test_the_status_page_tells_workers_apart(visitor: Client) -> None:
    factories.worker()
    factories.worker("compile", state="quarantined", state_text="self-test failed: wrong verdict")
    html = visitor.get("/status/").content.decode()
    assert "Online" in html
    assert "self-test failed: wrong verdict" in html


def test_the_rules_page_tells_the_numbers_of_the_rule_set(visitor: Client) -> None:
    html = visitor.get("/rules/").content.decode()
    rules = default_rules()
    assert f"{rules.verify.calls_per_config} calls per configuration" in html
    assert f"Each configuration is timed in {rules.time.steps_per_config} steps." in html
    assert all(flag in html for flag in rules.compile.flags)


def test_the_rules_page_explains_every_verdict(visitor: Client) -> None:
    html = visitor.get("/rules/").content.decode()
    for verdict in Verdict:
        assert verdict in VERDICT_BADGES
        assert f'id="{verdict}"' in html
        assert VERDICT_TEXTS[verdict].next_step.split("'")[0] in html
