"""A whole audit over scripted reports: what is examined, what agrees, and what contradicts a judging. Runs no tool."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from benchmarks.harness import default_suites, find_task
from benchmarks.harness.errors import AuditBroken, SupervisorError
from benchmarks.harness.gpu import audit
from benchmarks.harness.report import ConfigReport

CONFIGS = [item for item in find_task(default_suites(), "mnist_linear_relu/forward").configs["cuda"] if not item.hidden]
HEADLINE = next(item for item in CONFIGS if item.group == "single")
HEAD = '"Kernel Name","gpu__time_duration.sum","dram__bytes_read.sum","dram__bytes_write.sum"\n"","us","byte","byte"\n'
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
WRONG = "========= Invalid __global__ write of size 4 bytes\n========= ERROR SUMMARY: 2 errors\n"


@dataclass
class Tools:
    """Stands in for the tools: kernels of so many microseconds for each configuration, and one log."""

    kernels_us: tuple[float, ...] = (20.0, 12.0)
    log: str = CLEAN
    seen: list[tuple[str, str]] = field(default_factory=list)

    def run(self, configs: Any, name: str, argv: Any, ends: set[int]) -> str:
        (config,) = configs
        self.seen.append((name, config.key))
        if name == "compute-sanitizer":
            assert ends == {0, 99}  # 99: the tool has come to its end and has found errors
            return self.log
        assert ends == {0}
        return HEAD + "".join(f'"rows","{kernel_us}","1000","24"\n' for kernel_us in self.kernels_us)


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "tool", lambda name: f"/opt/{name}")


def judged(best: int = 0, kernel_us: float | None = 33.0) -> dict[str, ConfigReport]:
    """Every configuration passed; the one at `best` has the largest speedup."""
    return {
        item.key: ConfigReport(
            item.key, item.group, correct=True, kernel_us=kernel_us, speedup=3.0 if place == best else 2.0
        )
        for place, item in enumerate(CONFIGS)
    }


def looked(tools: Tools, results: dict[str, ConfigReport] | None = None) -> dict[str, Any]:
    return audit.Auditor(cast(Any, tools), CONFIGS).look(results or judged(CONFIGS.index(HEADLINE)))


def test_an_honest_kernel_agrees_with_its_audit() -> None:
    tools = Tools()
    found = looked(tools)
    assert (found["agrees"], found["problems"]) == (True, [])
    assert (found["config"], found["kernel_count"], found["kernel_sum_us"]) == (HEADLINE.key, 2, 32.0)
    assert found["dram_bytes"] == 2 * 1024
    assert found["sanitizer"] == {"config": tools.seen[-1][1], "errors": 0, "first": ""}


def test_the_headline_and_the_largest_speedup_are_profiled_and_the_smallest_is_checked() -> None:
    best = next(place for place, item in enumerate(CONFIGS) if item is not HEADLINE)
    tools = Tools()
    found = looked(tools, judged(best))
    profiled = [HEADLINE.key, CONFIGS[best].key]
    smallest = min(CONFIGS, key=lambda item: item.bytes_moved).key
    assert tools.seen == [*(("ncu", key) for key in profiled), ("compute-sanitizer", smallest)]
    assert [call["config"] for call in found["calls"]] == profiled


def test_kernels_that_take_longer_than_the_call_are_a_contradiction() -> None:
    found = looked(Tools(kernels_us=(30.0, 20.0)))
    assert not found["agrees"]
    assert found["problems"] == [f"{HEADLINE.key}: its kernels take 50.0 µs, the reported time is 33.0 µs"]


def test_a_call_without_a_kernel_is_a_contradiction() -> None:
    found = looked(Tools(kernels_us=()))
    assert found["problems"] == [f"{HEADLINE.key}: it runs no kernel at all"]


def test_invalid_accesses_are_counted_and_the_first_is_quoted() -> None:
    found = looked(Tools(log=WRONG))
    assert found["problems"] == ["compute-sanitizer: 2 invalid memory accesses"]
    assert found["sanitizer"]["first"] == "Invalid __global__ write of size 4 bytes"


@pytest.mark.parametrize("unit", ["byte", "Kbyte", "Mbyte", "Gbyte", "Tbyte"])
def test_no_amount_of_memory_is_a_failure_of_the_tool(unit: str) -> None:
    """An audit that fails by itself leaves an entry ranked, so no submission may choose that."""
    (row,) = audit.parse_ncu(HEAD.replace('"byte"', f'"{unit}"', 1) + '"rows","20","2","24"\n')
    assert row[2] == 2 * 1000.0 ** ["byte", "Kbyte", "Mbyte", "Gbyte", "Tbyte"].index(unit)


def test_a_list_of_kernels_is_short_and_their_number_whole() -> None:
    found = looked(Tools(kernels_us=(1.0,) * 30))
    assert (len(found["kernels"]), found["kernel_count"]) == (12, 30)


def test_what_was_never_timed_cannot_be_audited() -> None:
    with pytest.raises(SupervisorError, match="was never timed"):
        looked(Tools(), judged(CONFIGS.index(HEADLINE), kernel_us=None))


def test_a_log_with_two_ends_is_no_audit() -> None:
    with pytest.raises(AuditBroken, match="more than one end"):
        looked(Tools(log=CLEAN + CLEAN))
