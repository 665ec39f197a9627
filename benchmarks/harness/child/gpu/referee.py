"""The trusted process of a GPU judging: owns the shared memory, runs each call, compares results on the GPU.

Per call it writes fresh inputs, poisons results, flushes the L2 cache, and only then lets the contestant be woken; it
rings GO, waits for DONE and takes the time with its own clock. It keeps the GPU occupied until a moment
after GO (the gate): nothing that a contestant launches before GO can run, and what it launches then queues up, so that
launch overhead is not taken for the GPU's time. Right after DONE it asks the GPU
for a tiny kernel of its own: a contestant whose work still runs delays that, whatever the contestant says.
Private values, references and snapshots stay in memory that is shared with nobody. Not covered: freezing contestants
and every decision, which are the supervisor's.
"""

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch

from ...protocol import ControlWords, Link, Status, Word, control_words
from .. import check, inputs
from ..checkers import checker_of
from ..shell import connect
from . import batch
from .accelerator import Accelerator, Arena, exact_arithmetic, item_bytes, tensors_of
from .asleep import sleep_until_called
from .sample import SampledPiece, drawn_pieces
from .shell import start_device

_POLLS_PER_LOOK = 2048
_POISON = 0xFF  # floating-point: NaN; signed integers: -1
_CANARY_BYTES = 1 << 30
_CANARY_GEMM = 4096
_CANARY_REPEATS = 25
_CANARY_WARM_UP_S = 0.15
_STAND_IN_REPEATS = 3  # its clock needs no warm-up, and nothing is decided by its figures
_COUNTER_POLL_S = 0.001
_REPLAYED_S = 90.0  # a process that replays gives up earlier; if it is gone, the supervisor says so
_STRETCHES, _WRITES_OF_A_STRETCH = 15, 220  # about 20 ms on a GPU: contexts that share it have it for some milliseconds


def main(arguments: Sequence[str]) -> None:
    link = connect(arguments)
    exact_arithmetic()
    sleep_until_called(link, arguments)
    device = start_device(arguments[1])
    link.send(awake=True)
    referee = GpuReferee(link.receive(), link, device)
    referee.share_memory()
    gc.disable()
    while True:
        request = link.receive()
        link.send(**getattr(referee, request.pop("do"))(**request))


@dataclass
class ContestantDesk:
    """What the referee holds of one contestant."""

    arena: Arena
    words: ControlWords
    page: ControlWords  # of the process that replays its calls
    places: dict[int, list[int]] = field(default_factory=dict)  # where the results of a configuration lay last
    snapshot: list[torch.Tensor] = field(default_factory=list)
    sampled: list[tuple[SampledPiece, torch.Tensor]] = field(default_factory=list)  # as a replayed call ended


class GpuReferee:
    """Answers the supervisor's requests; each public method but `share_memory` is one of them."""

    def __init__(self, message: dict[str, Any], link: Link, device: Accelerator) -> None:
        self._link = link
        self._device = device
        self._configs = message["configs"]
        self._module = check.load_reference(Path(message["task"]))
        self._direction = message["direction"]
        self._checker = checker_of(self._module, self._direction)
        self._inputs = self._device.create(message["input_bytes"])
        self._desks = {
            who: ContestantDesk(self._device.create(message["output_bytes"]), words := control_words(fd), words)
            for who, fd in message["controls"].items()
        }
        for who, fd in message["pages"].items():
            self._desks[who].page = control_words(fd)
        self._on_gpu = self._device.device.type == "cuda"
        reserve(self._device, message["reserve_bytes"])
        self._flush = torch.empty(message["flush_bytes"], dtype=torch.int8, device=self._device.device)
        self._mark = torch.zeros(1, device=self._device.device)
        self._canary = _canary_tensors(self._device)
        self._sampler = self._device.sampler()
        self._timer = self._device.timer()
        self._drawn = ""
        self._values: list[list[torch.Tensor]] = []
        self._input_sets: dict[int, list[tuple[torch.Tensor, ...]]] = {}
        self._references: dict[int, tuple[torch.Tensor, ...]] = {}

    def share_memory(self) -> None:
        """Sends the descriptors: inputs first, then one arena for each contestant in the order of the request."""
        self._flush_us = sorted(self._flush_cache() for _ in range(_CANARY_REPEATS))[_CANARY_REPEATS // 2]
        fds = [self._inputs.fd, *(desk.arena.fd for desk in self._desks.values())]
        sizes = {
            "input_bytes": self._inputs.size_bytes,
            "output_bytes": [d.arena.size_bytes for d in self._desks.values()],
        }
        self._link.send_descriptors(fds, **sizes)

    def fill(self, config: int, seeds: list[str], distribution: str | None) -> dict[str, Any]:
        """Draws the input sets 0, 1, ... of `config` from `seeds` (hexadecimal) into memory of its own."""
        self._references.clear()
        self._values = []  # before anything else is allocated: one configuration may fill much of the memory
        self._values = [self._drawn_set(config, bytes.fromhex(seed), distribution) for seed in seeds]
        return {"filled": len(seeds)}

    def forget(self, who: str) -> dict[str, Any]:
        """As at the start: nothing that was drawn or compared, nor the memory of `who`, reaches the next submission."""
        self._checker = checker_of(self._module, self._direction)
        self._references.clear()
        self._values, self._drawn = [], ""
        desk = self._desks[who]
        desk.places, desk.snapshot = {}, []
        desk.arena.data.zero_()
        for item in self._desks.values():
            item.snapshot, item.sampled = [], []
        self._device.synchronize()
        return {"forgotten": True}

    def run(self, *, who: str, config: int, choice: int, function: int, step: int, **how: Any) -> dict[str, Any]:
        """One call of a contestant that the supervisor wakes when it is told `prepared`, and freezes afterwards.

        `how`: `timeout_s`, `gate_us` and whether the results are `compared`.
        """
        desk, timeout_s = self._desks[who], how["timeout_s"]
        self._write_inputs(config)
        self._poison(desk, config)
        flush_us = self._flush_cache()
        words = desk.words
        words[Word.FUNCTION], words[Word.CONFIG], words[Word.CHOICE] = function, config, 0
        words[Word.COMPARED] = how["compared"]
        words[Word.STEP] = step
        self._device.occupy(step, how["gate_us"])
        resumed_ns = _now_ns()
        self._link.send(prepared=True)
        if not _await(words, Word.READY, step, timeout_s):
            self._device.release(step)
            return {"arrived": False, "flush_us": flush_us}
        early = words[Word.DONE] == step
        words[Word.CHOICE] = choice
        self._device.release(step)
        started_ns = _now_ns()
        words[Word.GO] = step
        arrived = _await(words, Word.DONE, step, timeout_s)
        ended_ns = _now_ns()
        if not arrived:
            return {"arrived": False, "flush_us": flush_us}
        self._mark.add_(1.0)
        self._device.synchronize()
        idle_ns = _now_ns()
        status = int(words[Word.STATUS])
        wanted = status == Status.OK and how["compared"]
        desk.snapshot, inside = self._snapshot(desk, config) if wanted else ([], True)
        return {
            "arrived": True,
            "early": bool(early),
            "inside": inside,
            "status": status,
            "copied": bool(words[Word.COPIED]),
            "event_us": int(words[Word.EVENT_NS]) / 1e3,
            "wall_us": (ended_ns - started_ns) / 1e3,
            "tail_us": (idle_ns - ended_ns) / 1e3,
            "resume_us": (started_ns - resumed_ns) / 1e3,
            "flush_us": flush_us,
            "gate_us": how["gate_us"],
            "throttle": self._device.throttle(),
        }

    def stage(self, who: str, config: int, places: list[list[int]]) -> dict[str, Any]:
        """Everything as it has to be before a replayed call: fresh inputs, poison where its results will lie.

        The cache is emptied here: in the executor device code could change the kernel that does it.
        """
        self._write_inputs(config)
        desk, results = self._desks[who], self._configs[config]["results"]
        for one_call in places:
            for place, item in zip(one_call, results, strict=True):
                desk.arena.bytes_of(item, place).fill_(_POISON)
        self._flush_cache()
        return {"staged": True}

    def collect(self, who: str, config: int, step: int, calls: list[list[int]], *, kept: bool) -> dict[str, Any]:
        """Waits for the end of replayed calls, and takes copies of the results of the first of them if it is `kept`.

        `calls` are the places of their results, as far as they are known. As soon as they end, some rows are copied:
        if those that are judged differ, they are `late`. Before the calls and after them it runs a kernel of its own,
        which takes long if another process uses the GPU. With `step` 0 they have ended. {} if their process is gone.
        """
        desk, page = self._desks[who], self._desks[who].page
        desk.sampled, sampled_us, lead_us = [], 0.0, 0.0
        if step:
            pieces = drawn_pieces(calls, [item_bytes(item) for item in self._configs[config]["results"]])
            self._sampler.aim(desk.arena, [piece.rows.behind(piece.place) for piece in pieces])
            lead_us = self._own_kernel_us()
            page[Word.AIMED] = step
            if not _await(page, Word.ENDED, step, _REPLAYED_S):
                return {}
            desk.sampled = list(zip(pieces, self._sampler.take(), strict=True))
            sampled_us = (time.perf_counter_ns() - page[Word.ENDED_NS]) / 1e3 if pieces else 0.0
            if not _await(page, Word.FOLLOWED, step, _REPLAYED_S):
                return {}
        tail_us = self._own_kernel_us()
        self._copy_results(who, config, calls[0] if kept else [])
        late = kept and self._is_late(who, [0], [item[None] for item in desk.snapshot])
        told = {"lead_us": lead_us, "tail_us": tail_us, "sampled_us": sampled_us}
        return {**told, "late": late, "throttle": self._device.throttle()}

    def compare_all(self, who: str, config: int, places: list[list[int]], numbers: list[int]) -> dict[str, Any]:
        """Compares the results of calls back to back, each with the reference for its own input set.

        Many at a time; those that are not clearly right then are compared one by one, from the same copies.
        """
        desk, results = self._desks[who], self._configs[config]["results"]
        for group in batch.groups(len(places), results, self._values[0]):
            copied, chosen = batch.copies(desk.arena, results, [places[call] for call in group]), numbers[group.start :]
            if self._is_late(who, group, copied):
                return {"ok": False, "late": True, "reason": ""}
            for row, number in self._doubtful(config, chosen[: len(group)], copied):
                desk.snapshot = [rows[row] for rows in copied]
                found = self.compare(who, config, number)
                self._references.pop(number, None)
                if not found["ok"] or not found["intact"]:
                    reason = found["reason"] or "the inputs were changed"
                    return {"ok": False, "late": False, "reason": reason}
        return {"ok": True, "late": False, "reason": ""}

    def share_scratch(self, source: str, to: list[str]) -> dict[str, Any]:
        """What the recorder left in its memory, for the executors of all launches."""
        for name in to:
            self._desks[name].arena.data.copy_(self._desks[source].arena.data)
        self._device.synchronize()
        return {"shared": True}

    def compare(self, who: str, config: int, number: int) -> dict[str, Any]:
        """Compares the snapshot of the last call of `who` with the reference for input set `number`."""
        arguments = inputs.call_arguments(self._configs[config], self._values[number])
        if number not in self._references:
            self._references[number] = self._checker.truth(arguments)
        outputs, results = self._desks[who].snapshot, self._configs[config]["results"]
        found = self._checker.compare(f"{who} {config}", arguments, outputs, self._references[number], results)
        self._desks[who].snapshot = []
        worst = next((item for item in found if not item.ok), None)
        return {
            "ok": worst is None,
            "reason": "" if worst is None else worst.reason,
            "max_abs_error": str(max(item.max_abs_error for item in found)),
            "max_rel_error": str(max(item.max_rel_error for item in found)),
            "distribution": self._drawn,
            "intact": self._inputs_intact(config, number),
        }

    def canary(self) -> dict[str, Any]:
        """What the GPU does now: copy bandwidth (read and written) and float32 GEMM at best, and its state."""
        source, target, left, product = self._canary
        copy_us = self._best_us(lambda: target.copy_(source))
        gemm_us = self._best_us(lambda: torch.mm(left, left, out=product))
        return {
            "copy_gb_per_s": 2 * source.numel() * 4 / copy_us / 1e3,
            "gemm_tflops": 2 * len(left) ** 3 / gemm_us / 1e6,
            "state": self._device.state(),
        }

    def writes(self) -> dict[str, Any]:
        """The time of one flush of the cache within stretches of many, which whoever shares the GPU prolongs."""
        count = _WRITES_OF_A_STRETCH if self._on_gpu else 1
        found = []
        for _ in range(_STRETCHES):
            self._timer.start()
            for _ in range(count):
                self._flush.zero_()
            self._timer.stop()
            self._device.synchronize()
            found.append(self._timer.elapsed_us() / count)
        return {"writes_us": median(found)}

    def watch_energy(self, lead_s: float, watch_s: float) -> dict[str, Any]:
        """When the energy counter moved and to what, in seconds and millijoules, for `watch_s` after `lead_s`."""
        steps: list[tuple[float, int]] = []
        time.sleep(lead_s)
        until_s, last_mj = time.monotonic() + watch_s, self._device.energy_mj()
        while last_mj is not None and time.monotonic() < until_s:
            time.sleep(_COUNTER_POLL_S)
            now_mj, now_s = self._device.energy_mj(), time.monotonic()
            if now_mj is not None and now_mj != last_mj:
                steps.append((now_s, now_mj))
                last_mj = now_mj
        return {"steps": steps}

    def describe(self) -> dict[str, Any]:
        if not self._on_gpu:
            return {"gpu": "host stand-in", "torch": torch.__version__, "flush_us": self._flush_us}
        properties = torch.cuda.get_device_properties(0)
        return {
            "gpu": properties.name,
            "sm_count": properties.multi_processor_count,
            "l2_bytes": properties.L2_cache_size,
            "memory_bytes": properties.total_memory,
            "cuda": torch.version.cuda,
            "torch": torch.__version__,
            "flush_us": self._flush_us,
        }

    def _copy_results(self, who: str, config: int, places: list[int]) -> None:
        desk, results = self._desks[who], self._configs[config]["results"] if places else []
        desk.snapshot = [desk.arena.view(item, at).clone() for item, at in zip(results, places, strict=True)]

    def _is_late(self, who: str, calls: Sequence[int], copied: Sequence[torch.Tensor]) -> bool:
        """Whether rows of these calls differ from what they were at the end; `copied` has a row for each call."""
        for piece, taken in self._desks[who].sampled:
            if piece.call in calls:
                judged = batch.bits(copied[piece.result][calls.index(piece.call)])
                if not torch.equal(piece.rows.of(judged), taken.to(judged.device)):
                    return True
        return False

    def _doubtful(self, config: int, numbers: Sequence[int], copied: list[torch.Tensor]) -> list[tuple[int, int]]:
        """Row and number of the calls that have to be compared one by one: all, if there is but one, however large."""
        data, values = self._configs[config], [self._values[number] for number in numbers]
        if len(numbers) == 1 or not batch.is_possible(self._checker, data["results"]):
            return list(enumerate(numbers))
        truths = [self._checker.truth(inputs.call_arguments(data, one)) for one in values]
        places = [self._inputs_of(config)[number] for number in numbers]
        changed = batch.differ([item for one in places for item in one], [item for one in values for item in one])
        are_clear = batch.clearly_right(copied, truths, data["results"], changed)
        return [pair for pair, is_clear in zip(enumerate(numbers), are_clear, strict=True) if not is_clear]

    def _drawn_set(self, config: int, seed: bytes, distribution: str | None) -> list[torch.Tensor]:
        data = self._configs[config]
        values = [torch.empty_like(place) for place in self._inputs_of(config)[0]]
        self._drawn = inputs.draw_for(self._module, data, seed, values, distribution)
        return values

    def _inputs_of(self, config: int) -> list[tuple[torch.Tensor, ...]]:
        """Every input set as it lies in shared memory: it stays there, and a burst has hundreds of tensors."""
        if config not in self._input_sets:
            data = self._configs[config]
            self._input_sets[config] = [tensors_of(data, self._inputs, offsets) for offsets in data["input_offsets"]]
        return self._input_sets[config]

    def _write_inputs(self, config: int) -> None:
        sets = zip(self._inputs_of(config), self._values, strict=False)  # a burst has more sets
        pairs = [pair for places, values in sets for pair in zip(places, values, strict=True)]
        if pairs:
            torch._foreach_copy_([place for place, _ in pairs], [value for _, value in pairs])

    def _poison(self, desk: ContestantDesk, config: int) -> None:
        """NaN where results lay last and where they are copied to."""
        data = self._configs[config]
        for places in (desk.places.get(config, []), data["output_offsets"]):
            for place, item in zip(places, data["results"], strict=False):
                desk.arena.bytes_of(item, place).fill_(_POISON)

    def _own_kernel_us(self) -> float:
        began_ns = _now_ns()
        self._mark.add_(1.0)
        self._device.synchronize()
        return (_now_ns() - began_ns) / 1e3

    def _flush_cache(self) -> float:
        """Leaves nothing of inputs and results in the cache; how long that took, in microseconds."""
        self._device.forget_cached()
        self._timer.start()
        self._flush.zero_()
        self._timer.stop()
        self._device.synchronize()
        return self._timer.elapsed_us()

    def _snapshot(self, desk: ContestantDesk, config: int) -> tuple[list[torch.Tensor], bool]:
        """Copies of the results as they are now; False if the places told are no places."""
        found, places = [], []
        for number, item in enumerate(self._configs[config]["results"]):
            place = int(desk.words[Word.PLACES + number])
            if place % 8 or not desk.arena.holds(item, place):
                return [], False
            found.append(desk.arena.view(item, place).clone())
            places.append(place)
        desk.places[config] = places
        return found, True

    def _inputs_intact(self, config: int, number: int) -> bool:
        pairs = zip(self._inputs_of(config)[number], self._values[number], strict=True)
        return all(torch.equal(batch.bits(place), batch.bits(value)) for place, value in pairs)

    def _best_us(self, work: Callable[[], Any]) -> float:
        times = []
        until = time.monotonic() + (_CANARY_WARM_UP_S if self._on_gpu else 0.0)  # clocks take a while to rise
        while time.monotonic() < until:
            work()
            self._device.synchronize()
        for _ in range(_CANARY_REPEATS if self._on_gpu else _STAND_IN_REPEATS):
            self._timer.start()
            work()
            self._timer.stop()
            self._device.synchronize()
            times.append(self._timer.elapsed_us())
        return min(times)


def reserve(device: Accelerator, size_bytes: int) -> None:
    """Takes memory that torch keeps for later, so that nobody else can take all of it before it is needed."""
    torch.empty(size_bytes, dtype=torch.int8, device=device.device)


def _canary_tensors(device: Accelerator) -> tuple[torch.Tensor, ...]:
    """Two to copy and two to multiply, the same ones at each measurement: where memory lies makes a difference."""
    on_gpu = device.device.type == "cuda"
    count, size = (_CANARY_BYTES // 4, _CANARY_GEMM) if on_gpu else (_CANARY_BYTES // 256, _CANARY_GEMM // 8)
    return (*torch.ones(2, count, device=device.device), *torch.ones(2, size, size, device=device.device))


def _await(words: ControlWords, word: Word, step: int, timeout_s: float) -> bool:
    """Spins until the contestant has set `word`; False if time ran out or the supervisor says that it is gone."""
    deadline = time.monotonic() + timeout_s
    while True:
        for _ in range(_POLLS_PER_LOOK):
            if words[word] == step:
                return True
        if time.monotonic() > deadline or words[Word.ABORT] == step:
            return bool(words[word] == step)


def _now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
