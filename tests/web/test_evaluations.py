"""The evaluation page: who may see it, what it says in every state, and that hostile text stays text."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from benchmarks import selectors, services, switches
from benchmarks.harness import VERDICT_TEXTS, Step, Verdict
from benchmarks.judgings import moves
from benchmarks.models import Evaluation
from benchmarks.states import State, Switch, WorkerRole

from . import factories

PARTS = ["evaluation", "evaluation-live", "evaluation-report", "evaluation-source"]
HOSTILE = "\x1b[31mkernel.cpp:4:12: error\x1b[0m \x1b]0;title\x07<script>alert(1)</script>\x07\u202e end"


def test_the_largest_error_is_told_as_a_share_of_the_tolerance(visitor: Client) -> None:
    assert "2.0 % of the tolerance" in page(visitor, factories.judged())


def test_energy_is_a_column_where_it_was_measured_and_a_reason_where_not(visitor: Client) -> None:
    without = page(visitor, factories.judged(factories.passing(environment={"energy_unknown": "no counter"})))
    assert "Energy</th>" not in without
    assert "Reason for not measuring the energy" in without
    measured = factories.with_energy(factories.passing(), 0.25, 0.1)
    html = page(visitor, factories.judged(measured, text=f"{factories.SOURCE}// measured"))
    assert "Energy</th>" in html
    assert "250 µJ" in html
    assert "225 µJ to 275 µJ" in html


def page(client: Client, evaluation: Evaluation) -> str:
    response = client.get(evaluation.get_absolute_url())
    assert response.status_code == 200
    return response.content.decode()


@pytest.mark.parametrize("part", PARTS)
def test_a_private_evaluation_exists_for_its_owner_alone(
    as_owner: Client, as_stranger: Client, visitor: Client, owner: Any, part: str
) -> None:
    url = reverse(part, args=[factories.queued(owner=owner, visibility="private").code])
    assert as_owner.get(url).status_code == 200
    assert as_stranger.get(url).status_code == 404
    assert visitor.get(url).status_code == 404


@pytest.mark.parametrize("visibility", ["public", "unlisted"])
def test_everybody_with_the_link_reads_the_others(visitor: Client, owner: Any, visibility: str) -> None:
    page(visitor, factories.queued(owner=owner, visibility=visibility))


def test_a_queued_evaluation_says_why_it_waits(visitor: Client) -> None:
    factories.worker(WorkerRole.COMPILE)
    factories.worker()
    factories.queued(text=factories.SOURCE + "// first\n")
    assert "1 ahead of you" in page(visitor, factories.queued())


def test_a_queue_without_a_worker_is_said(visitor: Client) -> None:
    assert "No cpu-avx2 worker has ever been online." in page(visitor, factories.queued())


def test_paused_judging_is_said_on_the_page(visitor: Client) -> None:
    switches.switch_set(Switch.JUDGING, on=False, message="the machine moves")
    assert "Judging is paused: the machine moves" in page(visitor, factories.queued())


def test_a_running_evaluation_counts_its_configurations(visitor: Client) -> None:
    evaluation = factories.queued()
    moves.evaluation_step(factories.claimed_for_judging(), Step("verify", "progress", 3, 7, "batch_size=5"))
    html = page(visitor, evaluation)
    assert "3 of 7" in html
    assert "batch_size=5" in html


def test_an_unfinished_evaluation_is_followed_with_and_without_scripts(visitor: Client) -> None:
    evaluation = factories.queued()
    html = page(visitor, evaluation)
    assert f"topics=evaluation:{evaluation.code}" in html
    assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in html


def test_a_finished_evaluation_needs_no_script_and_no_refresh(visitor: Client) -> None:
    html = page(visitor, factories.judged())
    assert "htmx" not in html
    assert "refresh" not in html


def test_the_live_part_is_what_the_page_shows(visitor: Client) -> None:
    evaluation = factories.judged()
    live = visitor.get(reverse("evaluation-live", args=[evaluation.code])).content.decode()
    assert live.strip() in page(visitor, evaluation)


def test_an_accepted_one_shows_score_interval_baselines_trust_and_rank(visitor: Client) -> None:
    html = page(visitor, factories.judged(factories.passing(1.5, 0.02)))
    for words in ("1.50×", "95 % interval 1.47× to 1.53×", "against torch.compile", "timing trust", "rank 1"):
        assert words in html


def test_every_configuration_is_listed_with_its_times(visitor: Client) -> None:
    html = page(visitor, factories.judged())
    shown = factories.version().definition["devices"]["cpu"]["configs"]
    assert html.count("66.7 µs") == len(shown)
    assert "hidden 1" in html
    assert "64 of 64 calls checked" in html


def test_one_under_review_says_why(visitor: Client) -> None:
    html = page(visitor, factories.judged(factories.gated()))
    assert "Under review, not ranked yet" in html
    assert "More than 10 times faster" in html


@pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if verdict is not Verdict.PASS])
def test_every_other_verdict_says_what_it_means_and_what_to_try(visitor: Client, verdict: Verdict) -> None:
    html = page(visitor, factories.judged(factories.report(verdict, "Because of this.")))
    assert "Because of this." in html
    assert "What to try next" in html
    assert escape(VERDICT_TEXTS[verdict].next_step) in html
    assert verdict.value in html


def test_a_log_links_its_lines_into_the_code(visitor: Client) -> None:
    html = page(visitor, factories.judged(factories.failing("kernel.cpp:4:12: error: no\n")))
    assert '<a href="#L4">kernel.cpp:4:12</a>' in html
    assert 'id="L4"' in html


def test_a_hostile_log_stays_text(visitor: Client) -> None:
    html = page(visitor, factories.judged(factories.failing(HOSTILE)))
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert not any(sign in html for sign in ("<script>alert", "\x1b", "\x07", "\u202e"))


def test_hostile_source_title_and_reason_stay_text(visitor: Client) -> None:
    attack = "</code></pre><script>alert(1)</script>"
    report = factories.report(Verdict.RUNTIME_ERROR, attack)
    html = page(visitor, factories.judged(report, text=f"{factories.SOURCE}// {attack}\n", title=attack))
    assert "<script>alert" not in html


def test_downloads_are_attachments(visitor: Client) -> None:
    evaluation = factories.judged()
    for part in ("evaluation-report", "evaluation-source"):
        response = visitor.get(reverse(part, args=[evaluation.code]))
        assert response["Content-Disposition"].startswith("attachment")
        assert response["X-Content-Type-Options"] == "nosniff"


def test_the_report_is_the_public_json(visitor: Client) -> None:
    report = visitor.get(reverse("evaluation-report", args=[factories.judged().code])).json()
    assert report["verdict"] == "PASS"
    assert report["score"]["ci95"][0] <= report["score"]["speedup"]


def test_judging_again_adds_a_line_to_the_history(visitor: Client) -> None:
    evaluation = factories.judged()
    again = services.evaluation_create(evaluation.submission, reason="rejudge", supersedes=evaluation)
    html = page(visitor, evaluation)
    assert again.get_absolute_url() in html
    assert "Judged again" in html


def test_the_history_agrees_with_the_page_when_a_judging_ends_meanwhile() -> None:
    evaluation = factories.judged()
    evaluation.state = State.TIMING  # as the page read it a moment before
    assert [row.state for row in selectors.evaluation_history(evaluation)] == [State.TIMING]


def test_the_page_keeps_its_number_of_queries(visitor: Client, django_assert_num_queries: Any) -> None:
    evaluation = factories.judged()
    factories.many_entries(40)
    with django_assert_num_queries(11):
        page(visitor, evaluation)


def test_the_owner_can_cancel(as_owner: Client, owner: Any) -> None:
    evaluation = factories.queued(owner=owner)
    assert "Cancel</button>" in page(as_owner, evaluation)
    as_owner.post(reverse("evaluation-cancel", args=[evaluation.code]))
    assert "Cancelled by its author." in page(as_owner, evaluation)


def test_the_owner_cannot_cancel_what_staff_have_judged_again(as_owner: Client, owner: Any) -> None:
    again = services.evaluation_create(factories.judged(owner=owner).submission, reason="audit")
    assert "Cancel</button>" not in page(as_owner, again)
    as_owner.post(reverse("evaluation-cancel", args=[again.code]))
    again.refresh_from_db()
    assert again.state == "queued"


def test_a_stranger_cannot_cancel(as_stranger: Client, owner: Any) -> None:
    evaluation = factories.queued(owner=owner)
    assert "Cancel</button>" not in page(as_stranger, evaluation)
    as_stranger.post(reverse("evaluation-cancel", args=[evaluation.code]))
    evaluation.refresh_from_db()
    assert evaluation.state == "queued"


def test_who_submitted_without_an_account_can_cancel_from_the_same_browser(visitor: Client) -> None:
    visitor.post(reverse("submit", args=factories.TASK), {"text": factories.SOURCE, "language": "cpp"})
    evaluation = Evaluation.objects.get()
    assert "Cancel</button>" not in page(Client(), evaluation)
    visitor.post(reverse("evaluation-cancel", args=[evaluation.code]))
    evaluation.refresh_from_db()
    assert evaluation.state == "cancelled"


def test_looking_at_the_address_never_cancels(as_owner: Client, owner: Any) -> None:
    evaluation = factories.queued(owner=owner)
    assert as_owner.get(reverse("evaluation-cancel", args=[evaluation.code])).status_code == 405


def test_cancelling_too_late_says_so(as_owner: Client, owner: Any) -> None:
    evaluation = factories.judged(owner=owner)
    response = as_owner.post(reverse("evaluation-cancel", args=[evaluation.code]), follow=True)
    assert b"ended before it could be cancelled" in response.content


def test_a_provisional_score_is_named_as_such_until_there_is_a_verdict(visitor: Client) -> None:
    evaluation = factories.queued()
    moves.evaluation_provisional(factories.claimed_for_judging(), 2.5)
    shown = page(visitor, evaluation)
    assert "provisional" in shown
    assert "2.50" in shown
    assert escape(moves.NO_BASELINES) in shown
    moves.record_report(factories.claimed_for_judging(), factories.passing())
    assert "provisional" not in page(visitor, evaluation)
