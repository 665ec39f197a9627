"""How much memory of a GPU a judging needs: inputs, an arena for each contestant, and what the referee computes with.

Not covered: memory that a submission takes beside its arena.
"""

from ..measuring.faults import Fault
from ..report import Verdict
from ..rules import GpuRules
from ..tasks.spec import Config

CONTESTANTS = 4  # a baseline and a submission in each of two launches
_LEAST_RESULTS = 2  # in an arena: those of a call, and as much again for what it computes on its way
_REFEREE_CALLS = 8  # values, snapshots, and the reference in float64, in sizes of a call
_REFEREE_SHARE = 3  # of the memory, at most, for them
_CONTEXTS_BYTES, _CONTEXTS_SHARE = 8 << 30, 16  # of all processes
_AWAKE_SHARE = 8  # of the memory, at most, for contexts of processes that wait for their first submission
_CLEARLY_SHARE = 16  # of the memory: more than a context takes
_CLEARLY_BYTES = 1 << 30  # and more than the context of one process
_OFFSETS_MAX = 5000  # of tensors that one message can name
WAITING_SHARE = 0.35  # of the memory, at most, for all sessions that wait for submissions, without their contexts


def referee_bytes(input_bytes: int, result_bytes: int, memory_bytes: int) -> int:
    """What the referee keeps free for itself beside shared memory."""
    return min(_REFEREE_CALLS * (input_bytes + result_bytes), memory_bytes // _REFEREE_SHARE)


def judging_bytes(input_bytes: int, result_bytes: int, memory_bytes: int, contestants: int = CONTESTANTS) -> int:
    """The least that a judging takes of a GPU with so much memory. All sets of inputs and their results count."""
    arenas = contestants * _LEAST_RESULTS * result_bytes
    contexts = min(_CONTEXTS_BYTES, memory_bytes // _CONTEXTS_SHARE)
    return input_bytes + arenas + referee_bytes(input_bytes, result_bytes, memory_bytes) + contexts


def arena_bytes(
    wanted_bytes: int, input_bytes: int, result_bytes: int, memory_bytes: int, contestants: int = CONTESTANTS
) -> int:
    """The size of each contestant's arena: `wanted_bytes`, or less where the GPU has less for each.

    Half of what is left over stays free for what contestants take beside their arenas. Raises Fault, INTERNAL_ERROR,
    where the GPU is too small for the task: neither submission nor worker is to blame.
    """
    least = judging_bytes(input_bytes, result_bytes, memory_bytes, contestants)
    if least > memory_bytes:
        raise Fault(Verdict.INTERNAL_ERROR, f"the task is too large for this GPU: {told(least, memory_bytes)}")
    return min(wanted_bytes, _LEAST_RESULTS * result_bytes + (memory_bytes - least) // (2 * contestants))


def taken_bytes(
    arena_bytes: int, input_bytes: int, result_bytes: int, memory_bytes: int, contestants: int = CONTESTANTS
) -> int:
    """What a judging takes with arenas of this size."""
    least = judging_bytes(input_bytes, result_bytes, memory_bytes, contestants)
    return least + contestants * (arena_bytes - _LEAST_RESULTS * result_bytes)


def takes_most(taken_bytes: int, memory_bytes: int) -> bool:
    """Whether it may not fit beside sessions that wait; so it is wherever arenas are smaller than wanted."""
    return 2 * taken_bytes > memory_bytes


def is_nearly_all(free_bytes: int, memory_bytes: int) -> bool:
    """Whether the rest is no more than contexts of the judge take, some of which wait for their first submission."""
    return memory_bytes - free_bytes <= min(_CONTEXTS_BYTES, memory_bytes // _AWAKE_SHARE)


def is_clearly_more(free_bytes: int, before_bytes: int, memory_bytes: int) -> bool:
    """Whether so much more memory is free than before that it may be enough now."""
    return free_bytes >= before_bytes + max(memory_bytes // _CLEARLY_SHARE, _CLEARLY_BYTES)


def told(needed_bytes: int, memory_bytes: int) -> str:
    return f"a judging of it takes at least {needed_bytes / 1e9:.1f} GB, and this GPU has {memory_bytes / 1e9:.1f} GB"


def burst_sets(config: Config, rules: GpuRules, configs: int) -> int:
    """How many input sets a burst may have; a message that tells everybody where all of them lie is limited too."""
    size_bytes = sum(item.nbytes for item in config.tensors) + result_bytes(config)
    told = _OFFSETS_MAX // (configs * max(1, len(config.tensors)))
    return max(1, min(rules.burst_calls, told, rules.burst_bytes // max(1, size_bytes)))


def result_bytes(config: Config) -> int:
    return sum(item.nbytes for item in config.results)
