"""Replay in a GPU session: the submission's calls are recorded once and then launched by other processes.

The baselines capture their calls before anything of the submission runs: torch chooses kernels and takes memory as it
finds it, and keeps both. The candidate records one call for each input set of each configuration. Executors, one for
each launch, hold only its device code and launch what was recorded. When every configuration has been replayed on
fresh values with correct results, the candidate processes are ended, and only then the judging begins. Otherwise
`NotReplayable` gives the reason, and the session continues with bounded times. Not covered: what a record may say
(`record.py`) and the clock itself (`child/gpu/clock.py`).
"""

import json
import math
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from statistics import median
from typing import Any

from ..errors import RefereeError
from ..measuring.answers import numbers_of
from ..measuring.contestants import Actor, CallResult
from ..measuring.faults import Fault, death, failure, may_lack_gpu_memory
from ..measuring.laps import Laps
from ..measuring.last_words import cause_of, failed
from ..measuring.memory import Layout
from ..measuring.session import EAGER, NOTHING, REFEREE_TIMEOUT_S, RefereeProcess, faults_of
from ..protocol import ProtocolError, Status, Word
from ..report import Verdict
from ..sandbox.isolation import inside
from ..scores.scoring import BaselineTimes
from ..tasks.spec import Config
from .contexts import Contexts, contexts_of
from .crew import Crew
from .device_code import device_code
from .record import (
    ALL_PARAMETERS_MAX_BYTES,
    NODES_MAX,
    NotReplayable,
    RecordedCall,
)
from .recording import CallRecording, failed_of, not_replayable
from .shared_memory import INPUTS_AT, OUTPUTS_AT, Shared
from .word_times import (
    MEASURED,
    SAMPLED_MAX_US,
    Lateness,
    WordTimes,
    demand_times,
    is_worth,
    surely_us,
)

_TRIES, _LATE_TRIES = 25, 5
_SAMPLES = 5  # of which the last counts, even if all were late
_NULL_CALLS, _NULL_TRIES = 25, 100
_WARM_CALLS = 50  # made first and not counted: in executors they took up to 0.25 µs longer on H200s
_BEHIND_SPARE_US = 1.0  # the third word may come so much later after an empty call of an executor than of a baseline
# An empty call may take so much less at the end than what was subtracted. On H200s it took 0.11 µs more to 0.19 less.
_NOW_SPARE_US = 0.4
_STEPS = 1 << 62
_PUNCTUAL_CALLS, _PUNCTUAL_LEAST = 10, 8
LATE_RESULTS = "results were written after the call had reported its end"
_UNSEEN = "what its packages load could not be seen: there is no CUPTI, or it failed"

_Answers = tuple[dict[str, Any], dict[str, Any]]  # of who made a call, and of the referee


class _Unqueued(Exception):
    """The launches of a call take too long to queue, or keep the host from seeing when the call ends."""


@dataclass(frozen=True)
class Burn:
    """Calls back to back for a while: the time of each, and when the energy counter moved (seconds, millijoules)."""

    steps: Sequence[Sequence[float]]
    call_s: float


@dataclass
class Captured:
    """What the baselines of a session have captured: once, however many submissions it meets."""

    is_told: bool = False  # that they are to replay
    is_whole: bool = False
    kernels: dict[tuple[int, int], int] = field(default_factory=dict)  # in a call, by function and configuration
    replayed: dict[str, BaselineTimes] = field(default_factory=dict)  # by visible configuration


@dataclass
class Replay:
    """Recorded calls and the processes that replay them. Created by `begin`."""

    crew: Crew
    referee: RefereeProcess
    configs: Sequence[Config]
    layout: Layout
    sets: Sequence[int]  # of each configuration, that a baseline captures: as many as lie ready for a step
    timeout_s: float  # of a call
    begin_s: float  # recording and trying all calls together may take so long
    draw: Callable[[int, int], None]  # fresh values for so many input sets of a configuration
    before_hidden: Callable[[], None]  # called before the submission meets a hidden configuration
    laps: Laps = field(default_factory=Laps)
    calls: Sequence[tuple[RecordedCall, ...]] = ()
    late: list[Lateness] = field(default_factory=list)  # of all single calls
    between_us: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # empty calls between them
    captured: Captured = field(default_factory=Captured)
    repeated: int = 0  # calls whose times were worth nothing
    contexts: Contexts = field(default_factory=Contexts)
    _nothing: dict[str, tuple[float, ...]] = field(default_factory=dict)  # of an empty call, as in MEASURED
    _is_unseen: bool = False  # the recorder says that it could not see what its packages load

    def capture_baselines(self, fill: Callable[[int], int], wanted: Sequence[Sequence[int]]) -> None:
        """Nothing of the submission may run yet. `wanted` are the baselines' functions of each configuration.

        Raises NotReplayable, and Fault if the host is too busy.
        """
        if not self.captured.is_told:
            self.captured.is_told = True
            for baseline in self.crew.baselines:
                baseline.link.send(replay=True)
        casts = {"baseline": self.crew.baselines, "candidate": self.crew.executors}
        actors = {f"{name}{launch}": actor for name, cast in casts.items() for launch, actor in enumerate(cast)}
        self.contexts = contexts_of(actors, self._receive)
        for launch in self._launches:
            who, (call_us, *rest) = f"baseline{launch}", self._nothing_of_baseline(launch)
            self._nothing[who] = (self.contexts.empty_us.get(who, call_us), *rest)
        if not self.captured.is_whole:
            for number, functions in enumerate(wanted):
                fill(number)
                self._capture(number, functions)
            self.captured.is_whole = True
        self.laps.end("baselines_captured")

    def begin(self, shared: Shared, fill: Callable[[int], int], binary: Any) -> None:
        """Records, loads, and replays everything once. The candidates are frozen; the first one runs to be recorded.

        Raises NotReplayable, and Fault if the submission's process does not survive being recorded.
        """
        candidate, until_s = self.crew.candidates[0], time.monotonic() + self.begin_s
        candidate.child.resume()
        recording = CallRecording(candidate, self.referee, self.configs, 3 * self.timeout_s, until_s, self.laps)
        self.calls = recording.calls(
            fill, self.before_hidden, shared.memory, [len(sets) for sets in self.layout.inputs]
        )
        images, self._is_unseen = recording.loaded_code()
        until_s = recording.until_s
        self._freeze_candidates()
        self._write_code(binary, images)
        self.referee.ask("share_scratch", source="candidate0", to=[f"candidate{n}" for n in self._launches[1:]])
        self._open_executors(shared, until_s)
        self.laps.end("executors")
        self._try_all(fill, until_s)
        self.crew.end_candidates()
        self.laps.end("candidates_ended")
        self._measure_all(until_s)
        self.laps.end("nothing_measured")

    def forget_calls(self) -> None:
        """Of those until now nothing is told."""
        self.late.clear()
        self.between_us.clear()
        self.repeated = 0

    def demand_short_nothing(self) -> None:
        """The executors have been ended. Raises Fault if more was subtracted from calls than an empty one takes now."""
        for launch in self._launches:
            now_us = self._nothing_of_baseline(launch)[0]
            subtracted_us = max(self._nothing[f"{name}{launch}"][0] for name in ("baseline", "candidate"))
            if subtracted_us > now_us + _NOW_SPARE_US:
                told = f"an empty call took {subtracted_us:.1f} µs at the beginning and {now_us:.1f} µs at the end"
                raise Fault(Verdict.NOISY, f"something slowed the machine: {told}")

    def call(self, who: str, config: int, choice: int, function: int, *, compared: bool) -> CallResult:
        """One replayed call, with the result of `Contestant.call`. `who` is a name with the launch's number."""
        if function == NOTHING:
            return self._nothing_between(who)
        answer, taken = self._of_judging(who, config, [choice], function, compared=compared)
        if "error" in answer:
            return CallResult(Status.RAISED, error="a CUDA error", text=str(answer["error"]))
        if "gone" in answer:
            return self._actor(who).broken(self.timeout_s)
        times = self._times(who, answer, self._kernels(who, config, [choice], function))
        late = Lateness.around(times, answer, taken)
        self.late.append(late)
        return CallResult(
            Status.OK,
            wall_us=float(answer["call_us"]),
            resume_us=0.0,
            event_us=times.credited_us,
            **late._asdict(),
            throttled=tuple(taken["throttle"]),
        )

    def _nothing_between(self, who: str) -> CallResult:
        """An empty call of a baseline between timed ones, and one of its launch's executor, which is only told.

        Both are made as timed calls are, and by turns each is the first.
        """
        pair, made = [who, f"candidate{self._launch_of(who)}"], dict[str, float]()
        for name in reversed(pair) if len(self.between_us[who]) % 2 else pair:
            self.referee.ask("stage", who=name, config=0, places=[])
            answer = self._ask(who, 0, [], NOTHING) if name == who else self._empty(name)
            made[name] = float(answer["call_us"])
            self.between_us[name] += [made[name]] * is_worth(answer)
        return CallResult(Status.OK, wall_us=made[who], resume_us=0.0, event_us=None)

    def burst_us(self, who: str, config: int, count: int, usual: Lateness) -> float:
        """Time per call of `count` calls of the submission back to back, each on inputs of its own. Raises Fault."""
        answer, taken = self._of_judging(who, config, list(range(count)), EAGER, compared=False)
        if "error" in answer:
            raise failure(str(answer["error"]), f"calls back to back: {answer['error']}")
        if "gone" in answer:
            raise self._end_of(who)
        self._demand_right(who, config, range(count))
        times = self._times(who, answer, self._kernels(who, config, range(count), EAGER))
        late = Lateness.around(times, answer, taken)
        return (times.credited_us + late.beyond_us(usual._replace(behind_us=0.0))) / count

    def _end_of(self, who: str) -> Fault:
        broken = self._actor(who).broken(self.timeout_s)
        if broken.exit_code is not None:
            return death("in calls back to back", broken.exit_code, lost=broken.lost)
        return Fault(Verdict.TIMEOUT, f"calls back to back gave no answer within {self.timeout_s:g} s")

    def burn(self, config: int, count: int, burn_s: float, lead_s: float) -> Burn | None:
        """`count` calls of the submission again and again while the referee reads the energy counter.

        None if they fail; nothing is compared. Raises Fault if they do not end: whatever the executor answers later
        would be taken for the answer about another configuration.
        """
        who = "candidate0"
        sets = list(range(count))
        self.referee.ask("stage", who=who, config=config, places=self._places(who, config, sets))
        actor = self._actor(who)
        try:
            actor.link.send(config=config, sets=sets, burn_s=burn_s)
            steps = self.referee.ask("watch_energy", lead_s=lead_s, watch_s=burn_s - lead_s)["steps"]
            answer = actor.receive(self.timeout_s + burn_s)
        except (TimeoutError, ProtocolError):
            raise Fault(Verdict.TIMEOUT, f"repeated calls gave no answer within {self.timeout_s:g} s") from None
        return Burn(steps, answer["took_s"] / answer["calls"]) if answer.get("calls") else None

    def most_in_a_burst(self, config: int) -> int:
        """The largest number of calls in a burst: limited by the input sets and by what a stream can hold."""
        calls = self.calls[config]
        launched, told = NODES_MAX // max(1, calls[0].launches), max(1, calls[0].parameter_bytes)
        return max(1, min(len(calls), launched, ALL_PARAMETERS_MAX_BYTES // told))

    @property
    def nothing_us(self) -> dict[str, float]:
        return {who: round(values[0], 2) for who, values in self._nothing.items()}

    @property
    def _launches(self) -> range:
        return range(len(self.crew.baselines))

    def _write_code(self, binary: Any, loaded: Sequence[bytes]) -> None:
        folder = self.crew.folder / "code"
        for number, image in enumerate(device_code(binary, self.crew.folder / "kernels", loaded)):
            (folder / f"{number:04}.bin").write_bytes(image)
        records = [[list(call.nodes) for call in calls] for calls in self.calls]
        (folder / "records.json").write_text(json.dumps(records))

    def _open_executors(self, shared: Shared, until_s: float) -> None:
        for launch, executor in enumerate(self.crew.executors):
            code = inside(self.crew.folder / "code", "code")
            executor.open({"code": code, "inputs_at": INPUTS_AT, "outputs_at": OUTPUTS_AT})
            shared.hand(executor, 2 * launch + 1, self.crew.pages[launch].fd)
        for executor in self.crew.executors:
            messages = executor.messages(min(REFEREE_TIMEOUT_S, until_s - time.monotonic()))
            try:
                message = next(item for item in messages if item.get("serving") or "not_replayable" in item)
            except (TimeoutError, ProtocolError) as error:
                self._demand_time(until_s)
                why = "its device code cannot be loaded"
                raise NotReplayable(why, because=cause_of(executor.child)) from error
            if "not_replayable" in message:
                why, number = str(message["not_replayable"])[:600], message.get("config")
                why = f"{why}; {_UNSEEN}" if self._is_unseen else why
                raise NotReplayable(why) if number is None else not_replayable(self.configs[number], why)

    def _demand_time(self, until_s: float) -> None:
        if time.monotonic() > until_s:
            raise Fault(Verdict.TIMEOUT, f"recording and trying its calls took more than {self.begin_s:g} s")

    def _freeze_candidates(self) -> None:
        """Freezes candidates: their threads could delay the host. They continue later if calls cannot be replayed."""
        for candidate in self.crew.candidates:
            with faults_of("candidate"):
                candidate.child.freeze()

    def _try_all(self, fill: Callable[[int], int], until_s: float) -> None:
        """On fresh values every launch of the submission is replayed and compared."""
        for number in range(len(self.configs)):
            choice = fill(number)
            self.laps.end("filled")
            for launch in self._launches:
                self._demand_time(until_s)
                self._try(f"candidate{launch}", number, choice)
            self.laps.end("tried")

    def _capture(self, number: int, functions: Sequence[int]) -> None:
        self.referee.ask("stage", who="baseline0", config=number, places=[])
        for baseline in self.crew.baselines:
            baseline.link.send(capture=number, functions=list(functions), sets=self.sets[number])
        for baseline, answer in [(item, self._receive(item)) for item in self.crew.baselines]:
            if "not_captured" in answer:
                raise not_replayable(self.configs[number], f"its baseline: {answer['not_captured']}")
            kernels = numbers_of(answer, "kernels", len(functions), baseline.child)
            self.captured.kernels |= {
                (function, number): int(n) for function, n in zip(functions, kernels, strict=True)
            }

    def _try(self, who: str, number: int, choice: int) -> None:
        config = self.configs[number]
        try:
            answer, _ = self._timed(who, number, [choice], EAGER, compared=True, judged=False)
        except _Unqueued as error:
            raise not_replayable(config, str(error)) from error
        if "error" in answer or "gone" in answer:
            what = answer.get("error", "no answer")
            why = f"it fails when another process launches it ({what})"
            raise not_replayable(config, why, because=failed_of(answer))
        if not self.referee.ask("compare", who=who, config=number, number=choice)["ok"]:
            reason = "replayed on fresh values, its results are wrong: they depend on something not recorded"
            raise not_replayable(config, reason)

    def _measure_all(self, until_s: float) -> None:
        """For executors: device code that is there by now can make an empty call shorter, but not longer."""
        for launch in self._launches:
            who, rest_us = f"candidate{launch}", self._nothing[f"baseline{launch}"]
            call_us, behind_us = self._measure_nothing(who, until_s) or rest_us
            longest_us = self.contexts.empty_us.get(who, rest_us[0])
            call_us = longest_us if call_us > longest_us - _NOW_SPARE_US else call_us
            self._nothing[who] = (call_us, min(behind_us, rest_us[1] + _BEHIND_SPARE_US))

    def _nothing_of_baseline(self, launch: int) -> tuple[float, ...]:
        if (nothing_us := self._measure_nothing(f"baseline{launch}")) is None:
            what = "it does not see when empty calls of a baseline begin and end"
            raise Fault(Verdict.NOISY, f"the host is too busy: {what}")
        return nothing_us

    def _measure_nothing(self, who: str, until_s: float = math.inf) -> tuple[float, ...] | None:
        """Medians of empty calls whose times are worth something; None if too few are. The first calls do not count."""
        made = (self._empty(who, until_s) for _ in range(_WARM_CALLS + _NULL_TRIES))
        kept = list(islice(filter(is_worth, islice(made, _WARM_CALLS, None)), _NULL_CALLS))
        if len(kept) < _NULL_CALLS // 2:
            return None
        return tuple(median(answer[name] for answer in kept) for name in MEASURED)

    def _empty(self, who: str, until_s: float = math.inf) -> dict[str, Any]:
        """An empty call. Device code has run before it in an executor, so there a failure is the submission's fault."""
        self._demand_time(until_s)
        answer = self._ask(who, 0, [], EAGER)
        if "tampered" in answer:
            raise Fault(Verdict.TAMPERING, str(answer["tampered"]))
        if "error" in answer or "gone" in answer:
            why, lacks = answer.get("error", "no answer"), may_lack_gpu_memory(failed_of(answer))
            told = f"an empty call after its own fails ({why})"
            raise Fault(Verdict.RUNTIME_ERROR, told, lacks_gpu_memory=lacks)
        return answer

    def _of_judging(self, who: str, *call: Any, compared: bool) -> _Answers:
        try:
            return self._timed(who, *call, compared=compared)
        except _Unqueued as error:
            raise Fault(Verdict.RUNTIME_ERROR, str(error)) from error

    def _timed(
        self, who: str, config: int, sets: Sequence[int], function: int, *, compared: bool, judged: bool = True
    ) -> _Answers:
        """A call whose times are worth something, and what the referee collected: else it is made again.

        On other values, since it has run, and device code remembers; its results must be right if it is `judged`. The
        longest time counts, and of calls whose end was seen late what they took at least: device code could delay the
        host or the copies after slow calls alone. All of it together has the time of one call that does not end.
        Raises _Unqueued, Fault.
        """
        theirs, places = _is_candidate(who), self._places(who, config, sets)
        late, seen, blind_us, until_s = 0, 0, list[float](), time.monotonic() + self.timeout_s
        longest_us = 0.0
        while late < _LATE_TRIES and len(blind_us) < _TRIES and time.monotonic() < until_s:
            if theirs and (late or seen or blind_us):
                self.draw(config, max(sets) + 1)
            self.referee.ask("stage", who=who, config=config, places=places)
            answer, taken = self._collected(who, config, sets, function, compared=compared)
            if "error" in answer or "gone" in answer:
                return answer, taken
            counts = is_worth(answer)
            seen += counts
            longest_us = max(longest_us, surely_us(answer))
            is_sampled = taken["sampled_us"] <= SAMPLED_MAX_US or seen == _SAMPLES or time.monotonic() > until_s
            if counts and (is_sampled or not (judged and theirs)):
                return {**answer, "call_us": longest_us}, taken
            self.repeated += 1
            if judged:
                self._demand_right(who, config, sets)
            if answer["is_late"]:
                late += 1
            elif not counts:
                blind_us.append(answer["blind_us"])
        if theirs and self._is_punctual(who.replace("candidate", "baseline")):
            what = "it is seen too late when its calls begin or end" if blind_us else "its launches are queued too late"
            raise _Unqueued(f"{what}, although empty calls are in time")
        shown = f", by {median(blind_us):.1f} µs" if blind_us else ""
        raise Fault(Verdict.NOISY, f"the host is too busy: it sees too late when a call of {who} begins or ends{shown}")

    def _is_punctual(self, baseline: str) -> bool:
        """Whether its empty calls are in time: the host is not too busy. In an executor device code decides that."""
        return sum(is_worth(self._empty(baseline)) for _ in range(_PUNCTUAL_CALLS)) >= _PUNCTUAL_LEAST

    def _demand_right(self, who: str, config: int, sets: Sequence[int]) -> None:
        """Compares the results of calls that the submission has just made. Raises Fault."""
        if not _is_candidate(who):
            return
        places = self._places(who, config, sets)
        found = self.referee.ask("compare_all", who=who, config=config, places=places, numbers=list(sets))
        if found["late"]:
            raise Fault(Verdict.TAMPERING, LATE_RESULTS)
        if not found["ok"]:
            where = f"in {len(sets)} calls back to back: " if len(sets) > 1 else ""
            raise Fault(Verdict.INCORRECT_VALUE, f"{where}{found['reason']}")

    def _collected(self, who: str, config: int, sets: Sequence[int], function: int, *, compared: bool) -> _Answers:
        """A call, for whose end the referee waits. A baseline copies compared results itself, so it goes first."""
        theirs, places = _is_candidate(who), self._places(who, config, sets)
        waits = theirs or not compared
        step = 1 + secrets.randbelow(_STEPS) if waits else 0
        details = {"step": step, "calls": places, "kept": compared}
        if waits:
            self.referee.link.send(do="collect", who=who, config=config, **details)
        answer = self._ask(who, config, sets, function, compared=compared, step=step)
        if "gone" in answer:
            self.crew.pages[self._launch_of(who)].words[Word.ABORT] = step
        taken = self.referee.receive() if waits else self.referee.ask("collect", who=who, config=config, **details)
        if not taken and "gone" not in answer:
            raise RefereeError(f"the referee did not see the end of a call of {who}")
        if "tampered" in answer:
            raise Fault(Verdict.TAMPERING, str(answer["tampered"]))
        if "call_us" in answer and taken["late"]:
            raise Fault(Verdict.TAMPERING, LATE_RESULTS)
        return answer, taken

    def _ask(
        self, who: str, config: int, sets: Sequence[int], function: int, *, compared: bool = False, step: int = 0
    ) -> dict[str, Any]:
        actor, theirs = self._actor(who), _is_candidate(who)
        request: dict[str, Any] = {"config": config, "sets": list(sets), "step": step}
        try:
            actor.link.send(**request, **({} if theirs else {"function": function, "compared": compared}))
            answer = actor.receive(self.timeout_s if theirs else REFEREE_TIMEOUT_S)
        except (TimeoutError, ProtocolError) as error:
            if theirs:
                return {"gone": cause_of(actor.child)}
            raise failed("a baseline failed", actor.child) from error
        if not theirs:
            demand_times(answer, actor.child)
        return answer

    def _receive(self, actor: Actor) -> dict[str, Any]:
        try:
            return actor.receive(REFEREE_TIMEOUT_S)
        except (TimeoutError, ProtocolError) as error:
            raise failed("a process of the judge failed", actor.child) from error

    def _kernels(self, who: str, config: int, sets: Sequence[int], function: int) -> int:
        """How many kernels the calls on these input sets launch together."""
        if _is_candidate(who):
            return sum(self.calls[config][number].kernels for number in sets)
        return len(sets) * self.captured.kernels.get((function, config), 1)

    def _times(self, who: str, answer: dict[str, Any], kernels: int) -> WordTimes:
        pairs = zip(MEASURED, self._nothing[who], strict=True)
        call_us, behind_us = (answer[name] - nothing_us for name, nothing_us in pairs)
        return WordTimes(call_us - self.contexts.surplus_of(who, kernels), behind_us)

    def _actor(self, who: str) -> Actor:
        cast = self.crew.executors if _is_candidate(who) else self.crew.baselines
        return cast[self._launch_of(who)]

    def _launch_of(self, who: str) -> int:
        return int(who.removeprefix("candidate").removeprefix("baseline"))

    def _places(self, who: str, config: int, sets: Sequence[int]) -> list[list[int]]:
        if _is_candidate(who):
            return [list(self.calls[config][number].places) for number in sets]
        return [list(self.layout.outputs[config])]


def _is_candidate(who: str) -> bool:
    """Whether these are calls of the submission: names are candidate0, baseline0 and so on, one for each launch."""
    return who.startswith("candidate")
