"""A page per rule set: its checks, what changed since the one before, and the boards of the old one."""

import pytest

from benchmarks.catalogue import folders
from benchmarks.catalogue.rule_changes import predecessor, rule_changes
from benchmarks.harness import RuleSetError
from benchmarks.models import RuleSet

from . import factories

OLD = '[gates]\nmax_speedup = 10.0  # over the stronger\nold = 1\n[compile]\nflags = ["-O3"]\n'
NEW = '[gates]\nmax_speedup = 8.0  # over the stronger baseline\n[compile]\nflags = ["-O3"]\nlimit_bytes = 1_000_000\n'


@pytest.fixture
def two_rule_sets(tmp_path, monkeypatch, settings):
    """rk-2 as it is, and rk-3, which is in force and has a stricter gate."""
    text = (folders.rules_folder() / "rk-2.toml").read_text()
    (tmp_path / "rk-2.toml").write_text(text)
    newer = text.replace('name = "rk-2"', 'name = "rk-3"').replace("max_speedup = 10.0 ", "max_speedup = 8.0 ")
    (tmp_path / "rk-3.toml").write_text(newer)
    monkeypatch.setattr(folders, "rules_folder", lambda: tmp_path)
    monkeypatch.setattr("benchmarks.views.rules.rules_folder", lambda: tmp_path)

    def switch():
        settings.KBENCH_RULESET = "rk-3"
        folders.rules_sync()

    return switch


def test_what_differs_between_two_texts():
    found = [(item.place, item.before, item.after, item.meaning) for item in rule_changes(OLD, NEW)]
    assert found == [
        ("gates.max_speedup", "10.0", "8.0", "over the stronger baseline"),
        ("compile.limit_bytes", None, "1 000 000", ""),
        ("gates.old", "1", None, ""),
    ]


@pytest.mark.parametrize(
    ("name", "before"), [("rk-2", "rk-1"), ("rk-10", "rk-2"), ("rk-1", None), ("other-3", None), ("plain", None)]
)
def test_the_rule_set_before(name, before):
    assert predecessor(name, ["rk-1", "rk-10", "rk-2", "other-3", "plain"]) == before


def test_the_rules_tell_their_checks(visitor):
    page = visitor.get("/rules/").content.decode()
    assert "The speedup over the stronger baseline is at most 10×." in page
    assert 'href="#NONDETERMINISTIC"' in page
    assert visitor.get("/rules/rk-2/").content == visitor.get("/rules/").content


def test_an_unknown_rule_set_is_not_found(visitor):
    assert visitor.get("/rules/rk-99/").status_code == 404


def test_a_new_rule_set_tells_what_changed(visitor, two_rule_sets):
    two_rule_sets()
    page = visitor.get("/rules/").content.decode()
    assert "What changed from rk-2" in page
    assert "gates.max_speedup" in page
    old = visitor.get("/rules/rk-2/").content.decode()
    assert "This rule set is not active" in old


def test_the_board_under_old_rules_stays_at_its_own_address(visitor, owner, two_rule_sets):
    old = factories.judged(owner=owner)
    two_rule_sets()
    path = f"/leaderboards/{'/'.join(factories.TASK)}/cpu-avx2/"
    earlier = visitor.get(f"{path}?rules=rk-2").content.decode()
    assert old.get_absolute_url() in earlier
    assert "No verified entry yet" not in earlier
    now = visitor.get(path).content.decode()
    assert "No verified entry yet" in now
    assert "1 entry waiting to be judged" in now


def test_one_rule_set_is_in_force(two_rule_sets):
    two_rule_sets()
    assert dict(RuleSet.objects.values_list("name", "active")) == {"rk-2": False, "rk-3": True}


def test_rules_in_force_without_a_file_stop_the_start(settings):
    settings.KBENCH_RULESET = "rk-99"
    with pytest.raises(RuleSetError, match="rk-99"):
        folders.base_rows_sync()
