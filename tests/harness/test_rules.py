"""Rule sets are complete or refused."""

from pathlib import Path

import pytest

from benchmarks.harness import RuleSetError, default_rules, load_rules

TEXT = default_rules().text


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "rk-9.toml"
    path.write_text(text)
    return path


def test_the_shipped_rules_load() -> None:
    rules = default_rules("rk-2")
    assert rules.name == "rk-2"
    assert rules.time.min_steps_per_config <= rules.time.steps_per_config


def test_an_unknown_rule_set_is_named() -> None:
    with pytest.raises(RuleSetError, match="rk-77"):
        default_rules("rk-77")


@pytest.mark.parametrize("change", [("budget_s = 40", "budget = 40"), ("[verify]", "[check]"), ("= 40", "= [")])
def test_a_missing_unknown_or_broken_number_is_refused(tmp_path: Path, change: tuple[str, str]) -> None:
    with pytest.raises(RuleSetError):
        load_rules(written(tmp_path, TEXT.replace(*change, 1)))


def test_a_changed_number_is_read(tmp_path: Path) -> None:
    rules = load_rules(written(tmp_path, TEXT.replace("budget_s = 40", "budget_s = 41")))
    assert rules.time.budget_s == 41
