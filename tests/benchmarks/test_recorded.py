"""Bundles of recorded results: what a file may say, what loading it changes, and what a site records of itself."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from benchmarks.models import Evaluation, RecordedBundle, RecordedEntry, Standing, Submission
from benchmarks.recorded import bundles, selectors
from benchmarks.recorded.bundles import SHIPPED, BundleError, read_bundle
from benchmarks.recorded.loading import Loaded, load_bundle, load_shipped
from benchmarks.recorded.reports import one_line
from benchmarks.states import Switch
from benchmarks.switches import switch_set
from tests.recorded import CONFIG, HEADER, bundle_file, entry
from tests.rows import cpu_kind
from tests.web import factories


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bundle.jsonl"


def written(path: Path, *lines: Any) -> Path:
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"extra": 1}, "extra"),
        ({"speedup": -1.0}, "score.speedup"),
        ({"speedup": float("nan")}, "score.speedup"),
        ({"by": "two\nlines"}, "by"),
        ({"by": "x" * 201}, "by"),
        ({"task": "../../etc/passwd"}, "task"),
        ({"id": "a/b"}, "id"),
        ({"judged_at": "2026-11-21T12:00:00"}, "judged_at"),
        ({"source": "a\x00b"}, "source"),
        ({"source_sha256": "0" * 64}, "not the hash"),
        ({"configs": []}, "configs"),
        ({"configs": [{**CONFIG, "correct": False}]}, "configs.0.correct"),
        ({"configs": [CONFIG] * 501}, "configs"),
        ({"environment": {"a": {"nested": 1}}}, "environment.a"),
        ({"environment": {"a": "x" * 501}}, "environment.a"),
        ({"judgings": 0}, "judgings"),
    ],
)
def test_a_wrong_entry_is_refused_with_its_line(path: Path, changes: dict[str, Any], words: str) -> None:
    written(path, HEADER, entry(), {**entry(**changes), **({} if "id" in changes else {"id": "second"})})
    with pytest.raises(BundleError, match=r"^line 3: ") as error:
        read_bundle(path)
    assert words in str(error.value)


@pytest.mark.parametrize("first", ["", "{}\n", "[" * 100_000 + "\n", "\xff\n", '{"format": "other"}\n'])
def test_a_wrong_header_is_refused_with_its_line(path: Path, first: str) -> None:
    with pytest.raises(BundleError, match=r"^line 1: "):
        read_bundle(written(path, first, entry()))


def test_an_interval_without_its_speedup_is_refused(path: Path) -> None:
    wrong = entry()
    wrong["score"] |= {"ci95": [2.0, 3.0]}
    with pytest.raises(BundleError, match=r"line 2: score: .*outside of its interval"):
        read_bundle(written(path, HEADER, wrong))


TINY = 5e-324
FAST = {**CONFIG, "kernel_us": 10.0, "eager_us": 40.0, "compile_us": 40.0, "speedup": 4.0, "ci95": [4.0, 4.0]}
SLOW = {**CONFIG, "kernel_us": 10.0, "eager_us": 10.0, "compile_us": 10.0, "speedup": 1.0, "ci95": [1.0, 1.0]}
SCORE = entry()["score"]
IMPLAUSIBLE: dict[str, tuple[dict[str, Any], str]] = {
    "a tiny score": ({"speedup": TINY}, "score.speedup"),
    "a huge score": ({"speedup": 9e8}, "score.speedup"),
    "a tiny end": ({"score": {**SCORE, "ci95": [TINY, 9e8]}}, "score.ci95"),
    "tiny over eager": ({"score": {**SCORE, "vs_eager": TINY}}, "score.vs_eager"),
    "tiny over torch.compile": ({"score": {**SCORE, "vs_compile": 1e-310}}, "score.vs_compile"),
    "slower than eager": ({"score": {**SCORE, "vs_eager": 0.5}}, "but vs_eager is 0.5"),
    "year 1": ({"judged_at": "0001-01-01T00:00:00+14:00"}, "the years 1970 to 2099"),
    "year 9999": ({"judged_at": "9999-12-31T23:59:59-14:00"}, "the years 1970 to 2099"),
    "1969 in UTC": ({"judged_at": "1970-01-01T00:00:00+14:00"}, "the years 1970 to 2099"),
    "2100 in UTC": ({"judged_at": "2099-12-31T23:59:59-14:00"}, "the years 1970 to 2099"),
    "a tiny time": ({"configs": [{**CONFIG, "kernel_us": TINY}]}, "configs.0.kernel_us"),
    "a huge time": ({"configs": [{**CONFIG, "eager_us": 9e11}]}, "configs.0.eager_us"),
    "a tiny launch": ({"configs": [{**CONFIG, "launches_us": [[TINY]]}]}, "configs.0.launches_us"),
    "a tiny speedup": ({"configs": [{**CONFIG, "speedup": TINY, "ci95": [TINY, TINY]}]}, "configs.0.speedup"),
    "an inverted interval": ({"configs": [{**CONFIG, "ci95": [1.6, 1.4]}]}, "outside of its interval"),
    "half an interval": ({"configs": [{**CONFIG, "ci95": None}]}, "its interval must be given"),
    "other times": ({"configs": [{**CONFIG, "kernel_us": 0.1}]}, "but its times give 150"),
    "half an energy": ({"configs": [{**CONFIG, "energy_mj": 2.0}]}, "an energy and its interval"),
    "a huge energy": ({"configs": [{**CONFIG, "energy_mj": 1e15, "energy_ci95_mj": [1, 2]}]}, "configs.0.energy_mj"),
    "another energy": (
        {"configs": [{**CONFIG, "energy_mj": 3.0, "energy_ci95_mj": [1.0, 2.0]}]},
        "the energy 3.0 is outside",
    ),
    "no speedup": ({"configs": [{**CONFIG, "speedup": None, "ci95": None}]}, "no configuration has a speedup"),
    "a huge fact": ({"environment": {"copy_gb_per_s": 1e308}}, "environment.copy_gb_per_s"),
    "a score of other weights": (
        {"speedup": 2.0, "configs": [{**FAST, "key": "n=1,calls=1"}, {**SLOW, "key": "n=2,calls=3"}]},
        "the score is 2, but the mean of its configurations is 1.41421",
    ),
    "another score": ({"speedup": 100.0, "configs": [CONFIG]}, "the score is 100, but the mean of its"),
    "another pooled score": ({"speedup": 100.0, "configs": [CONFIG], "judgings": 3}, "the score is 100"),
    "the lower end, above the mean": ({"score": {**SCORE, "speedup": 1.6, "ci95": [1.6, 1.7]}}, "the score is 1.6"),
    "more than a lower end": (
        {"score": {**SCORE, "speedup": 1.2, "ci95": [1.0, 1.9], "timing_trust": "replayed"}},
        "the score is 1.2,",
    ),
    "the lower end of another": ({"score": {**SCORE, "speedup": 1.0, "ci95": [1.0, 1.2]}}, "the score is 1,"),
}


@pytest.mark.parametrize("case", list(IMPLAUSIBLE))
def test_figures_out_of_range_or_at_odds_are_refused(path: Path, case: str) -> None:
    changes, words = IMPLAUSIBLE[case]
    with pytest.raises(BundleError, match=r"^line 2: ") as error:
        read_bundle(bundle_file(path, entries=[changes]))
    assert words in str(error.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"speedup": 1.5001, "configs": [CONFIG]},  # rounded
        {"speedup": 2**0.5, "configs": [{**FAST, "key": "n=1,calls=1"}, {**SLOW, "key": "calls=3,n=2"}]},
        {"speedup": 2.0, "configs": [{**FAST, "key": "n=1,calls=many"}, {**SLOW, "key": "calls=-1"}]},
        {"score": {**SCORE, "speedup": 1.2, "ci95": [1.0, 1.9]}},  # the same of a bound, whose interval reaches further
        {"score": {**SCORE, "speedup": 1.2, "ci95": [1.2, 1.9]}},  # the kernel's own time varies: the lower end counts
        {  # and no more of a wide interval is kept than others may have
            "score": {**SCORE, "speedup": 1.0, "ci95": [1.0, 1.1]},
            "configs": [{**CONFIG, "ci95": [1.02, 2.2]}],
        },
        {"speedup": 1.3, "configs": [CONFIG], "judgings": 2},  # pooled with another judging
    ],
)
def test_a_score_may_differ_from_its_configurations_as_the_judge_lets_it(path: Path, changes: Any) -> None:
    assert len(read_bundle(bundle_file(path, entries=[changes]))[1]) == 1


@pytest.mark.django_db
@pytest.mark.parametrize(("value", "day"), [(1e-6, "1970-01-01T00:00:00Z"), (1e6, "2099-12-31T23:59:59-00:00")])
def test_the_ends_of_every_range_are_shown(path: Path, client: Client, value: float, day: str) -> None:
    score = {**SCORE, "speedup": value, "ci95": [value, value], "vs_eager": value, "vs_compile": value}
    config = {
        **CONFIG,
        "speedup": value,
        "ci95": [value, value],
        "kernel_us": None,
        "eager_us": 1e9,
        "compile_us": 1e-3,
    }
    load_bundle(bundle_file(path, entries=[{"score": score, "judged_at": day, "configs": [config]}, {"id": "second"}]))
    board = "/recorded/bundle/robust-kbench/mnist_linear_relu/forward/"
    for url in ("/", "/leaderboards/", "/compare/", "/recorded/bundle/", board, "/recorded/bundle/entries/first/"):
        answer = client.get(url, follow=True)
        assert answer.status_code == 200
        assert not re.search(r'inf×|["( ,]nan\b', answer.content.decode())


@pytest.mark.django_db
def test_a_score_pooled_with_a_deleted_judging_is_recorded_as_pooled(path: Path, version: Any) -> None:
    evaluation = factories.judged(factories.passing(2.0, 0.02), owner=factories.user("olga"))
    Standing.objects.filter(evaluation=evaluation).update(score=1.9, score_lo=1.8)
    call_command("record", path, device=cpu_kind().slug, name="ours")
    (found,) = read_bundle(path)[1]
    assert (found.score.speedup, found.judgings) == (1.9, 2)


@pytest.mark.django_db
def test_a_bundle_without_a_name_does_not_replace_one_that_is_shipped(path: Path, version: Any) -> None:
    factories.judged(factories.passing(2.0, 0.02), owner=factories.user("olga"))
    call_command("record", path, device=cpu_kind().slug)
    name = read_bundle(path)[0].name
    assert name == f"site-{cpu_kind().slug}-rk-2"
    assert not (SHIPPED / f"{name}.jsonl").exists()


def test_the_same_id_twice_is_refused(path: Path) -> None:
    with pytest.raises(BundleError, match="line 3: the id first is on an earlier line"):
        read_bundle(written(path, HEADER, entry(), entry()))


@pytest.mark.parametrize("bound", ["LINE_MAX_BYTES", "FILE_MAX_BYTES", "ENTRIES_MAX"])
def test_sizes_are_bounded(path: Path, bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle_file(path, entries=[{"id": "a"}, {"id": "b"}])
    assert len(read_bundle(path)[1]) == 2
    monkeypatch.setattr(bundles, bound, 1)
    with pytest.raises(BundleError, match=r"^line "):
        read_bundle(path)


@pytest.mark.django_db
def test_loading_again_changes_nothing_and_a_changed_entry_replaces(path: Path) -> None:
    assert load_bundle(bundle_file(path, entries=[{"id": "a"}, {"id": "b"}])) == Loaded("bundle", created=2)
    keys = dict(RecordedEntry.objects.values_list("name", "pk"))
    assert load_bundle(path) == Loaded("bundle", unchanged=2)
    changed = bundle_file(path, {"about": "New."}, [{"id": "a", "speedup": 2.5}, {"id": "c"}])
    assert load_bundle(changed) == Loaded("bundle", created=1, replaced=1, removed=1)
    assert RecordedEntry.objects.get(name="a").pk == keys["a"]
    assert RecordedEntry.objects.get(name="a").score == 2.5
    assert RecordedBundle.objects.get().about == "New."


@pytest.mark.django_db
def test_a_wrong_line_leaves_everything_as_it_was(path: Path) -> None:
    load_bundle(bundle_file(path))
    written(path, HEADER, entry(id="other"), "nonsense\n")
    with pytest.raises(CommandError, match="line 3"):
        call_command("load_records", path)
    assert list(RecordedEntry.objects.values_list("name", flat=True)) == ["first"]


@pytest.mark.django_db
def test_only_the_best_of_a_method_is_ranked_and_ties_share_a_rank(path: Path) -> None:
    other = {"slug": "triton", "title": "Triton", "kind": "library"}
    entries = [
        {"id": "old", "speedup": 1.2, "judged_at": "2026-11-20T12:00:00Z"},
        {"id": "new", "speedup": 2.0},
        {"id": "tied", "speedup": 1.99, "method": other},
        {"id": "slow", "speedup": 0.5, "by": "another"},
    ]
    load_bundle(bundle_file(path, entries=entries))
    ranks = dict(RecordedEntry.objects.values_list("name", "rank"))
    assert ranks == {"old": None, "new": 1, "tied": 1, "slow": 3}
    board = selectors.board(selectors.bundle_named("bundle"), "robust-kbench", "mnist_linear_relu", "forward")
    assert [row.name for row in board.history] == ["old", "new"]
    assert [(line.title, line.score) for line in board.baselines] == [("torch.compile", 1.0), ("PyTorch eager", 0.5)]


@pytest.mark.django_db
def test_of_a_bound_the_lower_end_counts_for_ranks_bests_and_records(path: Path) -> None:
    def scored(speedup: float, ci95: list[float], trust: str) -> dict[str, Any]:
        """Pooled, since the configuration has another speedup."""
        over = {"speedup": speedup, "vs_eager": 2 * speedup, "vs_compile": speedup}
        return {"score": {**SCORE, **over, "ci95": ci95, "timing_trust": trust}, "judgings": 2}

    entries = [
        {"id": "avoids", **scored(1.98, [1.45, 2.0], "bounded"), "judged_at": "2026-11-20T12:00:00Z"},
        {"id": "own", **scored(1.70, [1.68, 1.72], "replayed")},
        {"id": "wide", **scored(1.98, [1.45, 2.0], "audited"), "by": "bob", "judged_at": "2026-11-19T12:00:00Z"},
        {"id": "slow", **scored(1.55, [1.53, 1.57], "replayed"), "by": "cleo"},
    ]
    load_bundle(bundle_file(path, entries=entries))
    assert dict(RecordedEntry.objects.values_list("name", "rank")) == {"avoids": None, "own": 1, "slow": 2, "wide": 3}
    bundle = selectors.bundle_named("bundle")
    board = selectors.board(bundle, "robust-kbench", "mnist_linear_relu", "forward")
    assert [row.name for row in board.rows] == ["own", "slow", "wide"]
    assert [row.name for row in board.history] == ["wide", "own"]
    assert [row.name for row in selectors.leaders(bundle)] == ["own"]
    assert selectors.comparison(bundle).rows[0].marks[0].score == 1.70


@pytest.mark.django_db
def test_a_bound_leads_a_comparison_only_by_its_lower_end(path: Path) -> None:
    def scored(speedup: float, ci95: list[float], trust: str, slug: str) -> dict[str, Any]:
        over = {"speedup": speedup, "vs_eager": 2 * speedup, "vs_compile": speedup}
        method = {"slug": slug, "title": slug, "kind": "agent"}
        return {"score": {**SCORE, **over, "ci95": ci95, "timing_trust": trust}, "judgings": 2, "method": method}

    entries = [
        {"id": "one", **scored(1.98, [1.45, 2.0], "bounded", "avoids")},
        {"id": "two", **scored(1.70, [1.68, 1.72], "replayed", "own")},
    ]
    load_bundle(bundle_file(path, entries=entries))
    found = selectors.comparison(selectors.bundle_named("bundle"))
    [line] = found.lines
    leading = [row.title for row, cell in zip(found.rows, line.cells, strict=True) if cell.leads]
    assert leading == ["own"]


@pytest.mark.django_db
def test_what_ships_can_be_loaded_and_is_ranked_apart(settings: Any) -> None:
    loaded = {item.name: item.created for item in load_shipped()}
    assert loaded.keys() == {path.stem for path in SHIPPED.glob("*.jsonl")}
    entries = sum(count for name, count in loaded.items() if not name.startswith("run-"))
    assert entries == RecordedEntry.objects.count() > 0
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) < 4_000_000
    for own in (Standing, Evaluation, Submission):
        assert not own.objects.exists()
    assert [item.name for item in selectors.bundles()][:2] == ["nvidia-h100-rk-2", "nvidia-h200-rk-2"]  # all replayed
    comparison = selectors.comparison(selectors.bundle_named("nvidia-h200-rk-1"))
    assert [row.title for row in comparison.rows][:2] == ["Reference kernels, CUDA C++", "Reference kernels, Triton"]
    assert comparison.total == 19
    settings.KBENCH_RECORDED = False
    assert load_shipped() == []


@pytest.mark.django_db
@pytest.mark.parametrize("by", ["switch", "setting"])
def test_one_switch_hides_everything(path: Path, by: str, settings: Any) -> None:
    load_bundle(bundle_file(path))
    assert [bundle.name for bundle in selectors.bundles()] == ["bundle"]
    if by == "switch":
        switch_set(Switch.RECORDED, on=False)
    else:
        settings.KBENCH_RECORDED = False
    assert selectors.bundles() == []
    assert RecordedEntry.objects.exists()


@pytest.mark.django_db
def test_the_rules_of_today_come_first_among_bundles_of_as_many_tasks(path: Path) -> None:
    for name, ruleset in (("a-before", "rk-1"), ("b-today", "rk-2"), ("c-before", "rk-1")):
        load_bundle(written(path, {**HEADER, "name": name, "ruleset": ruleset}, entry()))
    assert [bundle.name for bundle in selectors.bundles()] == ["b-today", "c-before", "a-before"]


@pytest.mark.django_db
def test_a_bundle_can_be_removed(path: Path) -> None:
    load_bundle(bundle_file(path))
    call_command("load_records", remove="bundle")
    assert not RecordedEntry.objects.exists()
    with pytest.raises(CommandError, match="there is no bundle"):
        call_command("load_records", remove="bundle")


@pytest.mark.django_db
def test_what_a_site_records_another_can_load(path: Path, version: Any) -> None:
    public = factories.judged(factories.passing(2.0, 0.02), owner=factories.user("olga"), title="Fused\nloop")
    factories.judged(factories.passing(3.0, 0.02), text=factories.SOURCE + "// private", visibility="private",
                     owner=factories.user("paul"))  # fmt: skip
    call_command("record", path, device=cpu_kind().slug, name="ours")
    header, entries, _ = read_bundle(path)
    assert header.ruleset == "rk-2"
    assert header.ruleset_sha256
    assert [(item.by, item.title, item.source) for item in entries] == [("olga", "Fused loop", factories.SOURCE)]
    load_bundle(path)
    row = RecordedEntry.objects.get()
    standing = Standing.objects.get(evaluation=public)
    assert (row.name, row.score, row.score_lo, row.score_hi) == (
        str(public.code),
        standing.score,
        standing.score_lo,
        standing.score_hi,
    )
    assert row.rank == 1
    assert row.judged_at.replace(microsecond=0) == standing.verified_at.replace(microsecond=0)


@pytest.mark.django_db
def test_energy_and_error_of_each_configuration_are_recorded_and_shown(
    path: Path, version: Any, client: Client
) -> None:
    """8 mJ on each of five configurations; an entry of an older file has none."""
    report = factories.with_energy(factories.passing(2.0, 0.02), 8.0, 0.1)
    factories.judged(report, owner=factories.user("olga"))
    call_command("record", path, device=cpu_kind().slug, name="ours")
    _, (read,), _ = read_bundle(path)
    told = [(item.energy_mj, item.energy_ci95_mj, item.max_rel_error) for item in read.configs]
    assert told == [(item.energy_mj, item.energy_ci95_mj, item.max_rel_error) for item in report.configs]
    load_bundle(path)
    row = RecordedEntry.objects.get()
    for address in (row.board_url, row.get_absolute_url()):
        html = client.get(address).content.decode()
        assert "8.00 mJ" in html
        assert "7.20 mJ to 8.80 mJ" in html or address == row.board_url
    board = client.get(row.board_url).content.decode()
    assert "Largest relative error" in board
    load_bundle(bundle_file(path))
    board = client.get(RecordedEntry.objects.get(bundle__name="bundle").board_url).content.decode()
    assert "Energy of a call" not in board
    assert "1.0e-07" in board


@pytest.mark.django_db
def test_a_site_without_entries_records_nothing(path: Path, version: Any) -> None:
    with pytest.raises(CommandError, match="there is no ranked entry"):
        call_command("record", path, device=cpu_kind().slug)
    with pytest.raises(CommandError, match="no device kind nvidia-x"):
        call_command("record", path, device="nvidia-x")
    assert not path.exists()


def test_a_text_becomes_one_line() -> None:
    assert one_line("a\n\tb\x00\u202ec ", 10) == "a b c"
    assert one_line("abcdef", 3) == "abc"
