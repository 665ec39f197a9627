"""The memory of a GPU that a judging takes, without a GPU."""

import pytest

from benchmarks.harness import Verdict
from benchmarks.harness.gpu.capacity import (
    CONTESTANTS,
    WAITING_SHARE,
    arena_bytes,
    is_clearly_more,
    is_nearly_all,
    judging_bytes,
    referee_bytes,
    taken_bytes,
    takes_most,
)
from benchmarks.harness.measuring.faults import Fault

GB = 10**9
H200, H100 = 150 * GB, 85 * GB


@pytest.mark.parametrize(
    ("input_bytes", "result_bytes"), [(0, 0), (GB, GB), (6 * GB, 6 * GB), (12 * GB, GB), (0, 9 * GB)]
)
@pytest.mark.parametrize("memory_bytes", [8 * GB, H100, H200])
def test_everything_together_fits(input_bytes: int, result_bytes: int, memory_bytes: int) -> None:
    wanted = 5 * result_bytes + 4 * GB
    try:
        arena = arena_bytes(wanted, input_bytes, result_bytes, memory_bytes)
    except Fault:
        assert judging_bytes(input_bytes, result_bytes, memory_bytes) > memory_bytes
        return
    assert 2 * result_bytes <= arena <= wanted
    shared = input_bytes + CONTESTANTS * arena
    assert shared + referee_bytes(input_bytes, result_bytes, memory_bytes) < memory_bytes


def test_a_small_task_gets_what_it_wants_and_a_large_one_what_is_left() -> None:
    assert arena_bytes(4 * GB, 10**6, 10**6, H100) == 4 * GB
    left = arena_bytes(36 * GB, 6 * GB, 6 * GB, H200)
    assert 12 * GB < left < 18 * GB


def test_a_task_that_no_judging_has_room_for_is_refused_with_both_sizes() -> None:
    with pytest.raises(Fault, match=r"a judging of it takes at least 8\d\.\d GB, and this GPU has 85\.0 GB") as raised:
        arena_bytes(36 * GB, 6 * GB, 6 * GB, H100)
    assert raised.value.verdict is Verdict.INTERNAL_ERROR


def test_whoever_fits_beside_sessions_that_wait_calls_for_no_room_and_all_others_do() -> None:
    """Contexts of the processes that wait, and what contestants take beside their arenas, need a tenth at least."""
    small = large = 0
    for part in range(1, 20):
        sizes = part * GB // 2, part * GB // 8, H100
        wanted = 5 * sizes[1] + 4 * GB
        arena = arena_bytes(wanted, *sizes)
        taken = taken_bytes(arena, *sizes)
        if takes_most(taken, H100):
            large += 1
        else:
            small += 1
            assert arena == wanted
            assert taken + WAITING_SHARE * H100 < 0.9 * H100
    assert small > 1
    assert large > 1


@pytest.mark.parametrize(("memory_bytes", "others_bytes"), [(H200, 8 * GB), (H100, 8 * GB), (24 * GB, 3 * GB)])
def test_contexts_of_the_judge_are_no_other_user_of_the_gpu(memory_bytes: int, others_bytes: int) -> None:
    assert is_nearly_all(memory_bytes - others_bytes, memory_bytes)
    assert not is_nearly_all(memory_bytes - others_bytes - GB, memory_bytes)
    assert not is_clearly_more(memory_bytes, memory_bytes - GB, memory_bytes), "one context more or less"
    assert is_clearly_more(memory_bytes, memory_bytes - 10 * GB, memory_bytes)
