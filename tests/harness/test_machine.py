"""Cores, peaks and floors."""

import os
import time

import pytest
import torch

from benchmarks.harness import Paths, UsageError, default_rules, devices_here
from benchmarks.harness.child.admitting import probe
from benchmarks.harness.child.peaks import measure_peaks
from benchmarks.harness.hosts import machine
from benchmarks.harness.hosts.machine import Peaks
from benchmarks.harness.hosts.processors import processor
from benchmarks.harness.tracks import open_track

PEAKS = Peaks(((1 << 14, 10e9), (1 << 18, 40e9), (1 << 24, 8e9)), flops_per_s=1e11)


def test_the_supervisor_has_a_core_of_its_own_where_there_are_two() -> None:
    cores = machine.divide_cores(default_rules().cpu)
    assert cores.threads >= 1
    if len(os.sched_getaffinity(0)) > 1:
        assert not set(cores.supervisor) & set(cores.contestants)


def test_a_floor_is_bound_by_bytes_or_by_arithmetic() -> None:
    assert PEAKS.floor_us(8_000_000, 0) == pytest.approx(1000.0)
    assert PEAKS.floor_us(0, 10**9) == pytest.approx(10_000.0)


def test_a_small_copy_is_held_against_the_best_rate_of_any_larger_one() -> None:
    assert PEAKS.floor_us(1 << 14, 0) == pytest.approx((1 << 14) / 40e9 * 1e6)


def test_data_larger_than_any_copy_measured_uses_the_largest() -> None:
    assert PEAKS.floor_us(1 << 30, 0) == pytest.approx((1 << 30) / 8e9 * 1e6)


def test_of_two_measurements_the_better_counts_size_by_size() -> None:
    other = Peaks(((1 << 14, 20e9), (1 << 18, 30e9)), flops_per_s=2e11)
    assert PEAKS.or_better(other) == Peaks(((1 << 14, 20e9), (1 << 18, 40e9), (1 << 24, 8e9)), 2e11)


@pytest.mark.alone
def test_no_matrix_product_is_faster_than_the_peak_of_arithmetic() -> None:
    """Tried several times, one after the other: other work on the machine can slow either measurement."""
    size = 512
    left, right = torch.randn(2, size, size)

    def product_flops_per_s() -> float:
        best_s = 1.0
        for _ in range(20):
            started = time.perf_counter()
            torch.mm(left, right)
            best_s = min(best_s, time.perf_counter() - started)
        return 2 * size**3 / best_s

    peaks = (measure_peaks(torch.get_num_threads())["flops_per_s"] for _ in range(10))
    assert any(1.2 * peak > product_flops_per_s() for peak in peaks)


def test_of_a_foreign_model_convolutions_count_a_quarter() -> None:
    image, weights, matrix = torch.ones(1, 2, 8, 8), torch.ones(3, 2, 3, 3), torch.ones(4, 4)
    plain = probe._called(lambda: matrix @ matrix)["flops"]
    assert plain == 2 * 4**3
    assert probe._called(lambda: torch.conv2d(image, weights))["flops"] == 2 * 3 * 2 * 9 * 6 * 6 // 4


def test_the_processor_is_always_a_device() -> None:
    assert (devices_here()[0].name, devices_here()[0].kind) == ("cpu", processor().kind)


def test_an_unknown_device_is_refused(paths: Paths) -> None:
    with pytest.raises(UsageError, match="tpu"):
        open_track("tpu", default_rules(), paths)
