"""Overall boards, methods and the compare page: denominators, refusals, cells, costs, and data for programs."""

import csv
import io
import json
import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from agents.models import Run
from benchmarks import extensions, selectors
from benchmarks.accounts import ownership
from benchmarks.boards import overview, same_code
from benchmarks.extensions import Extension, SearchCost
from benchmarks.models import Method, RuleSet, Standing, Task
from benchmarks.moderation import decisions
from benchmarks.states import ActionKind
from benchmarks.views.compare import METHODS_MAX, p_of, wanted_slugs
from tests.rows import cpu_kind

from . import factories

SUITE = "robust-kbench"
TASKS = 4  # of the test catalogue that run on a CPU
API = "/api/v1"


def method(slug: str, kind: str = "agent") -> Method:
    return Method.objects.get_or_create(slug=slug, defaults={"title": slug.title(), "kind": kind})[0]


def entry(speedup: float, slug: str = "human", op: str = "mnist_linear_relu", **options: Any) -> Any:
    """An accepted submission of a method to `op/forward`."""
    text = f"{factories.SOURCE}// {slug} {op} {speedup}\n"
    version = factories.version(op)
    return factories.judged(
        factories.passing(speedup, 0.02), text=text, version=version, method=method(slug), **options
    )


def page(client: Client, address: str, **query: Any) -> str:
    response = client.get(address, query)
    assert response.status_code == 200, response.content
    return response.content.decode()


def compare(client: Client, methods: str, **query: Any) -> str:
    return page(client, reverse("compare"), methods=methods, device="cpu-avx2", **query)


def data(client: Client, path: str, **query: Any) -> Any:
    return client.get(API + path, {"device": "cpu-avx2", **query}).json()


def rows_of(client: Client, path: str, **query: Any) -> list[dict[str, str]]:
    response = client.get(API + path, {"device": "cpu-avx2", "format": "csv", **query})
    assert response["Content-Type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(response.content.decode())))


# --- overall board -------------------------------------------------------------------------------------------------


def test_a_task_not_attempted_counts_as_failed(visitor: Client) -> None:
    entry(2.0)
    html = page(visitor, f"/leaderboards/{SUITE}/", device="cpu-avx2")
    assert f"1 of {TASKS}" in html
    assert "25 %" in html


def test_two_easy_tasks_do_not_beat_breadth(visitor: Client) -> None:
    entry(9.0, "narrow")
    entry(1.2, "broad")
    entry(1.2, "broad", "layernorm")
    assert [row["slug"] for row in data(visitor, "/overall")["methods"]] == ["broad", "narrow"]


def test_the_mean_is_over_the_tasks_that_all_have_solved_and_says_so(visitor: Client) -> None:
    entry(2.0, "narrow")
    entry(4.0, "broad")
    entry(9.0, "broad", "layernorm")
    found = data(visitor, "/overall")
    assert found["common"] == ["mnist_linear_relu/forward"]
    means = {row["slug"]: row["mean"] for row in found["methods"]}
    assert means["broad"]["speedup"] == pytest.approx(4.0)
    assert means["broad"]["tasks"] == 1
    assert means["broad"]["ci95"][0] < 4.0 < means["broad"]["ci95"][1]
    words = " ".join(page(visitor, f"/leaderboards/{SUITE}/").split())
    assert "the 1 task solved by every method that solved at least one (2 methods)" in words


def test_the_best_stand_on_the_first_page(visitor: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "PAGE_ROWS", 1)
    entry(0.5, "aaa")
    entry(2.0, "zzz")
    html = page(visitor, f"/leaderboards/{SUITE}/")
    assert "/methods/zzz/" in html
    assert "/methods/aaa/" not in html
    assert "/methods/aaa/" in page(visitor, f"/leaderboards/{SUITE}/", page="2")


def test_the_best_of_all_takes_each_task_from_whoever_is_best(visitor: Client) -> None:
    entry(2.5, "one")
    entry(2.5, "two", "layernorm")
    shares = {share["p"]: share["count"] for share in data(visitor, "/overall")["best_of_all"]}
    assert shares[2.0] == 2


def test_what_is_private_under_review_or_failed_is_no_entry(visitor: Client, owner: Any) -> None:
    entry(3.0, owner=owner, visibility="private")
    factories.judged(factories.gated(), method=method("gated"))
    factories.judged(factories.failing(), text=factories.SOURCE + "// fails\n", method=method("failing"))
    found = {row["slug"]: row for row in data(visitor, "/overall")["methods"]}
    assert set(found) == {"gated", "failing"}
    assert all(row["fast"][0]["count"] == 0 and row["attempted"] == 1 for row in found.values())


def test_a_failure_of_ours_is_nobodys_attempt(visitor: Client) -> None:
    factories.judged(factories.report(factories.Verdict.INTERNAL_ERROR, "Our fault."))
    assert data(visitor, "/overall")["methods"] == []


def test_a_task_with_a_label_is_left_out_of_the_denominator(visitor: Client) -> None:
    version = factories.version("layernorm")
    version.task.labels = ["constant-output"]
    version.task.save()
    entry(2.0)
    html = page(visitor, f"/leaderboards/{SUITE}/", device="cpu-avx2")
    assert f"1 of {TASKS - 1}" in html
    assert "1 task of the suite cannot be ranked" in html


def test_a_task_with_a_remark_counts_as_any_other(visitor: Client) -> None:
    """It is ranked, so no table may say that it cannot be."""
    Task.objects.update(labels=["one-shape"])
    entry(2.0)
    assert [row["slug"] for row in data(visitor, "/overall")["methods"]] == ["human"]
    html = page(visitor, f"/leaderboards/{SUITE}/", device="cpu-avx2")
    assert f"1 of {TASKS}" in html
    assert "cannot be ranked" not in html


def test_kinds_of_methods_can_be_shown_alone(visitor: Client) -> None:
    entry(2.0)
    entry(2.0, "evo")
    html = page(visitor, f"/leaderboards/{SUITE}/", kind="agent")
    assert "/methods/evo/" in html
    assert "/methods/human/" not in html


def test_an_unknown_suite_is_not_found(visitor: Client) -> None:
    assert visitor.get("/leaderboards/nothing/").status_code == 404
    assert visitor.get(f"{API}/overall", {"suite": "nothing"}).json()["code"] == "not-found"


# --- compare -------------------------------------------------------------------------------------------------------


def test_the_page_says_who_leads_at_the_p_that_is_chosen(visitor: Client) -> None:
    entry(1.2, "broad")
    entry(1.2, "broad", "layernorm")
    entry(5.0, "deep")
    assert "<strong data-leader-names>Broad</strong>" in compare(visitor, "broad,deep", p=1)
    assert "<strong data-leader-names>Deep</strong>" in compare(visitor, "broad,deep", p=2)
    assert "<strong data-leader-names>nobody</strong>" in compare(visitor, "broad,deep", p=50)


def test_level_methods_lead_together(visitor: Client) -> None:
    entry(2.0, "one")
    entry(2.0, "two", "layernorm")
    assert "<strong data-leader-names>One and Two</strong>" in compare(visitor, "one,two")


def test_a_cell_opens_the_evaluation_or_says_what_happened(visitor: Client) -> None:
    evaluation = entry(2.0, "one")
    factories.judged(factories.failing(), text=factories.SOURCE + "int fails;\n", method=method("two"))
    html = compare(visitor, "one,two")
    line = re.search(r"mnist_linear_relu/<wbr\s*>forward</a></th>(.*?)</tr>", html, re.DOTALL)
    assert line
    assert evaluation.get_absolute_url() in line[1]
    assert "1.96× to 2.04×" in line[1]
    assert ">failed</td>" in line[1]
    assert html.count("not attempted") > TASKS


def test_an_entry_under_review_is_told_as_such(visitor: Client) -> None:
    factories.judged(factories.gated(), method=method("one"))
    assert ">under review</td>" in compare(visitor, "one")


def test_the_numbers_that_the_slider_counts_on_are_those_of_the_table(visitor: Client) -> None:
    entry(2.0, "one")
    html = compare(visitor, "one")
    scores = json.loads(re.search(r'<script id="scores" type="application/json">(.*?)</script>', html)[1])
    assert scores == {"total": TASKS, "methods": {"one": [[2.0, 1.96, 2.04]]}}


def test_more_than_six_methods_are_refused_with_what_to_do(visitor: Client) -> None:
    slugs = ",".join(f"m{n}" for n in range(METHODS_MAX + 2))
    response = visitor.get(reverse("compare"), {"methods": slugs})
    assert response.status_code == 400
    assert "Remove 2 and compare again" in response.content.decode()
    assert visitor.get(f"{API}/compare", {"methods": slugs}).json()["code"] == "too-many-methods"


def test_an_unknown_method_is_named_and_the_others_are_compared(visitor: Client) -> None:
    entry(2.0, "one")
    html = compare(visitor, "one,nobody")
    assert "There is no method called nobody" in html
    assert "2.00×" in html
    assert visitor.get(f"{API}/compare", {"methods": "nobody"}).json()["code"] == "unknown-method"


def test_without_a_choice_the_page_offers_one(visitor: Client) -> None:
    entry(2.0, "one")
    html = page(visitor, reverse("compare"))
    assert 'name="methods" value="one"' in html
    assert "data-leaders" not in html


@pytest.mark.parametrize(
    ("text", "p"), [("", 1.0), ("2.5", 2.5), ("-3", 0.0), ("nan", 1.0), ("x", 1.0), ("1e9", 100.0)]
)
def test_a_malformed_p_is_held_in_range(text: str, p: float) -> None:
    assert p_of(text) == p


def test_methods_come_with_commas_or_one_by_one() -> None:
    assert wanted_slugs(["a,b", "c", "a", " "]) == ["a", "b", "c"]


def test_a_title_that_is_markup_is_shown_as_text(visitor: Client) -> None:
    entry(2.0, "evil")
    Method.objects.filter(slug="evil").update(title="<script>alert(1)</script>")
    for html in (compare(visitor, "evil"), page(visitor, "/methods/"), page(visitor, f"/leaderboards/{SUITE}/")):
        assert "<script>alert" not in html


def test_what_agents_have_spent_stands_beside_what_they_solved(visitor: Client) -> None:
    evaluation = entry(2.0, "evo")
    for usd in (1.0, 2.5):
        Run.objects.create(
            task_version=evaluation.task_version,
            device_kind=evaluation.device_kind,
            method=method("evo"),
            language="cpp",
            proposer="x",
            seed=1,
            config={},
            spent={"usd": usd, "input_tokens": 1000, "output_tokens": 10, "judgings": 20, "judging_s": 60.5},
        )
    entry(1.5)
    html = compare(visitor, "evo,human")
    assert "$3.50" in html
    assert "2,020" in html
    assert html.count("not recorded") > 0
    evo, human = data(visitor, "/compare", methods="evo,human")["methods"]
    assert evo["cost"] == {"runs": 2, "usd": 3.5, "tokens": 2020, "judgings": 40, "judging_s": 121.0}
    assert human["cost"] is None


def test_a_registered_provider_is_asked_and_sums_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "_extensions", {})
    extensions.register("a", Extension(costs=lambda scope: {scope.methods[0]: SearchCost(usd=1.0)}))
    extensions.register("b", Extension(costs=lambda scope: {scope.methods[0]: SearchCost(usd=0.5, judgings=3)}))
    assert extensions.costs_of(extensions.Scope((7, 8), 1, 1)) == {7: SearchCost(usd=1.5, judgings=3)}


# --- methods -------------------------------------------------------------------------------------------------------


def test_a_method_has_its_standings_and_coverage(visitor: Client) -> None:
    evaluation = entry(2.0, "one")
    entry(0.5, "one", "layernorm")
    html = page(visitor, "/methods/one/", device="cpu-avx2")
    assert evaluation.get_absolute_url() in html
    assert f"2 of {TASKS} tasks" in html
    assert "1.96× to 2.04× vs the stronger baseline" in html
    found = data(visitor, "/methods/one")
    assert [row["state"] for row in found["standings"]].count("solved") == 2
    assert found["fast"][1] == {"p": 1.0, "count": 1, "sure": 1, "possible": 1, "total": TASKS}


def test_a_method_without_an_entry_is_listed_and_has_a_page(visitor: Client) -> None:
    method("idle")
    assert "/methods/idle/" in page(visitor, "/methods/")
    assert "not been judged on this suite and device yet" in page(visitor, "/methods/idle/")
    assert visitor.get("/methods/nobody/").status_code == 404
    assert visitor.get(f"{API}/methods/nobody").json()["code"] == "unknown-method"


# --- data and size -------------------------------------------------------------------------------------------------


def test_every_table_of_the_page_is_there_as_csv(visitor: Client) -> None:
    entry(2.0, "one")
    summary = rows_of(visitor, "/compare", methods="one", part="summary")
    assert (summary[0]["fast_1_count"], summary[0]["tasks"]) == ("1", str(TASKS))
    curve = rows_of(visitor, "/compare", methods="one", part="curve")
    assert [(float(row["p"]), float(row["share"])) for row in curve] == [(0.0, 0.25), (2.0, 0.0)]
    matrix = rows_of(visitor, "/compare", methods="one", part="matrix")
    assert len(matrix) == TASKS
    assert [row["speedup"] for row in matrix if row["state"] == "solved"] == ["2.0"]
    assert rows_of(visitor, "/compare", methods="one", part="cost")[0]["usd"] == ""


def test_queries_do_not_grow_with_methods_and_tasks(visitor: Client, django_assert_num_queries: Any) -> None:
    entry(2.0, "one")
    addresses = [
        reverse("compare") + "?methods=one,two,three&device=cpu-avx2",
        f"/leaderboards/{SUITE}/?device=cpu-avx2",
        "/methods/?device=cpu-avx2",
        "/methods/one/?device=cpu-avx2",
        f"{API}/compare?methods=one&device=cpu-avx2",
        f"{API}/overall?device=cpu-avx2",
        f"{API}/methods?device=cpu-avx2",
    ]
    before = [_queries(visitor, address) for address in addresses]
    for slug in ("one", "two", "three"):
        for op in ("mnist_linear_relu", "layernorm"):
            entry(3.0, slug, op)
    assert [_queries(visitor, address) for address in addresses] == before
    assert max(before) < 20


def _queries(client: Client, address: str) -> int:
    with CaptureQueriesContext(connection) as caught:
        assert client.get(address).status_code == 200
    return len(caught)


def test_a_slow_reading_is_used_again_until_something_changes(monkeypatch: pytest.MonkeyPatch, visitor: Client) -> None:
    monkeypatch.setattr(overview, "KEPT_FROM", 0)
    monkeypatch.setattr(overview, "REUSE", 0)
    monkeypatch.setattr(overview, "_kept", {})
    entry(2.0, "one")
    suite, device = overview.suite_of(SUITE), cpu_kind()
    first = overview.read_field(suite, device)
    assert overview.read_field(suite, device) is first
    entry(2.0, "two")
    later = overview.read_field(suite, device)
    assert later is not first
    assert len(later.best) == 2


def test_a_reading_that_took_long_is_used_for_a_while_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "KEPT_FROM", 0)
    monkeypatch.setattr(overview, "REUSE", 1e6)
    monkeypatch.setattr(overview, "_kept", {})
    suite, device = overview.suite_of(SUITE), cpu_kind()
    first = overview.read_field(suite, device)
    entry(2.0, "one")
    assert overview.read_field(suite, device) is first


@pytest.mark.parametrize("how", ["deleted", "private", "hidden"])
def test_an_evaluation_that_is_gone_since_the_reading_is_on_no_page(
    monkeypatch: pytest.MonkeyPatch, visitor: Client, owner: Any, staff: Any, how: str
) -> None:
    monkeypatch.setattr(overview, "KEPT_FROM", 0)
    monkeypatch.setattr(overview, "REUSE", 1e6)
    monkeypatch.setattr(overview, "_kept", {})
    evaluation = entry(2.0, "one", owner=owner)
    assert evaluation.get_absolute_url() in compare(visitor, "one")
    if how == "deleted":
        evaluation.delete()
    elif how == "private":
        ownership.visibility_change(evaluation.submission, "private")
    else:
        decisions.decide(evaluation.submission, ActionKind.HIDE, by=staff, reason="Advertising.")
    assert evaluation.get_absolute_url() not in compare(visitor, "one")


def test_only_boards_of_the_current_rules_count(visitor: Client) -> None:
    entry(2.0, "one")
    old = RuleSet.objects.create(name="rk-0", title="Old", text="", sha256="0" * 64)
    Standing.objects.update(ruleset=old)
    assert data(visitor, "/overall")["methods"][0]["fast"][0]["count"] == 0
    assert same_code.holder_of(Standing.objects.get().evaluation) == Standing.objects.get().holder
