"""Makes the calls of one judging: verifies every configuration, then times all of them in random order.

The contestants are PyTorch eager, torch.compile and the submitted kernel (the candidate). A visit to a contestant
starts with a random number of calls on decoys (other inputs), which warm up its code. One call on fresh inputs follows,
and only its time counts. The shorter the calls of a configuration are, the more decoys a visit has: whatever a kernel
prepares in a visit, it must prepare for many calls. Verifying and timing make the same kind of visit. Every timed call
is checked, and so are some of the others, so a kernel cannot detect the phase. A step is one visit to every contestant
on the same inputs. The order of the contestants is reversed in the next step (ABBA). Not covered: statistics
(`scores/`) and the report (`stages.py`).
"""

import math
import random
import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import Cancelled, RefereeError
from ..report import Verdict
from ..rules import Rules
from ..scores.stats import PairedTimes, bootstrap_log_speedups, interval, mean_logs, median_us
from ..source import Step, Watcher
from ..tasks.spec import Config
from .contestants import CallComparison, CallResult
from .faults import Fault, call_fault
from .session import COMPILE, DISTRIBUTIONS, EAGER, NOTHING, Fill, Session
from .tally import CANDIDATE, ConfigTally, Contender, gathered, with_decoys
from .used_up import Watch, fresh_us_per_byte

_REPEATS_OF_A_WRONG_CALL = 3
# While the interval is too wide, the number of steps may grow to so many times the usual one, and to the second limit
# during the first seconds.
_STEPS_MOST, _EARLY_STEPS_MOST, _EARLY_S = 2, 4, 5.0
_HIDDEN_EVERY_ROUNDS = 10
_CHECK_DECOYS_ONCE_IN = 16
# the calls on decoys of a visit take about this long in all, but their mean number stays within these limits
_DECOYS_US, _DECOYS_LEAST, _DECOYS_MOST = 1000.0, 1.25, 6.0
_DECOYS_BYTES = 128 << 20  # of arguments that are drawn for a visit; where there are more of them, decoys are few
_RANDOM = secrets.SystemRandom()
# The mean visit of a kernel may take longer than its median visit. The share is this difference, less that of eager,
# divided by the time of a call. A share above the first limit is charged if it is also more than the second number of
# standard errors. If it is not, the kernel is judged again if the share is above the third limit and more than the
# fourth number of standard errors: a single long call in a judging makes a share of about one standard error.
_GATHERED_SHARE, _SURE_ERRORS, _DOUBTFUL_SHARE, _ONE_CALL_ERRORS = 0.1, 3.0, 0.3, 1.2


class Judging:
    """Runs the calls of one session. It has a ledger for each configuration, in the order of the session."""

    def __init__(self, session: Session[Any], watcher: Watcher) -> None:
        self._session = session
        self._watcher = watcher
        self._rules: Rules = session.setting.rules
        self._deadline = time.monotonic() + self._rules.limits.judging_s
        self.ledgers = [ConfigTally(config) for config in session.setting.configs]
        self.compile_problems = list(session.setting.prepared.problems)
        self._compile_was_wrong: dict[int, tuple[Fill, int]] = {}  # on these values and in this set of them
        self.null_calls: list[CallResult] = []
        self._has_met_hidden = session.has_met_hidden
        self._watch = Watch(session.forget_touched, session.touched)

    @property
    def fault(self) -> tuple[Config, Fault] | None:
        """The first fault; `ledgers` has the visible configurations first."""
        return next(((item.config, item.fault) for item in self.ledgers if item.fault is not None), None)

    def verify(self) -> None:
        """Calls every configuration several times. A wrong result ends its configuration, a dead process ends all."""
        total = len(self.ledgers)
        for number, ledger in enumerate(self.ledgers):
            name = "a hidden configuration" if ledger.config.hidden else ledger.config.key
            self._tell(Step("verify", "progress", number + 1, total, name))
            for turn in range(self._rules.verify.calls_per_config):
                distribution = DISTRIBUTIONS[(turn + number) % len(DISTRIBUTIONS)]
                self._verify_step(number, distribution, with_baselines=turn == 0)
                if ledger.fault is not None:
                    break
            if not self._alive():
                break

    def time(self) -> None:
        """Times until every configuration has its steps or the time budget is spent. Stops at the first fault.

        While the interval of the score is wider than wanted, more steps follow for some seconds, up to four times the
        number; while it is wider than the rules allow, up to twice the number.
        """
        self._settle()
        rules, started = self._rules.time, time.monotonic()
        usual = rules.steps_per_config
        for number in range(_EARLY_STEPS_MOST * usual):
            total = usual * next(most for most in (1, _STEPS_MOST, _EARLY_STEPS_MOST) if number < most * usual)
            self._tell(Step("time", "progress", number, total, "paired steps"))
            spent = time.monotonic() - started
            if number >= rules.min_steps_per_config and spent > rules.budget_s:
                return
            is_whole_block = number >= usual and number % (2 * rules.launches) == 0
            if is_whole_block and not self._needs_more(number, spent):
                return
            # two steps, one in each order, with one launch; then the next launch
            self._session.turn(number // 2)
            self.null_calls.append(self._null_call())
            self._watch.round_begins(self._session.launch, hidden=number % _HIDDEN_EVERY_ROUNDS == 0)
            for config in self._round(number):
                self._time_step(config, backwards=number % 2 == 1)
                if self.fault is not None:
                    return
            self._watch.round_ends(self._session.launch)

    def _settle(self) -> None:
        """Makes rounds whose times are not kept: at least one per launch, and for at least `settle_s` seconds.

        The first call on a configuration may choose algorithms and load code.
        """
        rules = self._rules.time
        until, number = time.monotonic() + rules.settle_s, 0
        while rules.settle_s > 0 and (number < rules.launches or time.monotonic() < until) and self.fault is None:
            self._session.turn(number)
            for config in self._round(1):
                self._time_step(config, backwards=number // rules.launches % 2 == 1, noted=False)
            number += 1

    @property
    def null_call_us(self) -> float | None:
        walls = [result.wall_us for result in self.null_calls if result.wall_us is not None]
        return median_us(np.array(walls)) if walls else None

    def _needs_more(self, steps: int, spent_s: float) -> bool:
        """Whether the score's interval is too wide for a judging that has taken so many steps and seconds."""
        if spent_s < _EARLY_S:
            return self._is_wider_than(self._session.wanted_share * self._rules.score.max_half_width)
        is_allowed = steps < _STEPS_MOST * self._rules.time.steps_per_config
        return is_allowed and self._is_wider_than(self._rules.score.max_half_width)

    def _is_wider_than(self, half_width: float) -> bool:
        timed = [(number, item) for number, item in enumerate(self.ledgers) if not item.config.hidden]
        if any(len(item.launches) < self._rules.time.min_steps_per_config for _, item in timed):
            return True
        times = [self.paired_times(number) for number, _ in timed]
        logs = bootstrap_log_speedups(times, self._rules.score.bootstrap_samples, seed=0)
        low, high = interval(mean_logs(logs, times))
        return (high - low) / 2 > half_width * math.sqrt(low * high)

    def control(self, fills: Sequence[Fill] = ()) -> None:
        """Calls the baselines, without the submission, on every configuration and on all values of `fills`.

        Raises SupervisorError if this fails, too: then the submission did not cause the error.
        """
        for number in range(len(self.ledgers)):
            self._verify_baselines(number, self._session.fill(number))
        for fill in fills:
            self._session.fill_again(fill)
            for choice in range(len(fill.seeds)):
                self._verify_baselines(fill.config, choice)

    def paired_times(self, number: int) -> PairedTimes:
        """The times of the contestants in each step of a configuration. Raises Fault if too few steps were kept.

        Added to the time of each call, for kernel and baselines: its delay, the processor time that the process used
        while it was frozen before the call and after the order to stop, and extra work of its decoys (`carried_us`).
        Added to the kernel's calls only: what it does in decoys and after the end of calls beyond what eager does.
        """
        ledger = self.ledgers[number]
        least = self._rules.time.min_steps_per_config
        if len(ledger.launches) < least:
            found = f"only {len(ledger.launches)} steps could be kept, but {least} are needed ({ledger.config.key})"
            raise Fault(Verdict.NOISY, f"the clocks of the GPU were lowered during many steps: {found}")
        compiled = ("baseline", COMPILE)
        return PairedTimes(
            kernel_us=ledger.charged_us(CANDIDATE, self._rules) + ledger.outside_us(),
            eager_us=ledger.charged_us(("baseline", EAGER), self._rules),
            compile_us=ledger.charged_us(compiled, self._rules) if compiled in ledger.times_us else None,
            launch=np.array(ledger.launches),
            weight=ledger.config.weight,
        )

    def late_ready_us(self, number: int) -> float:
        """By how much late starts increase the median time of the kernel."""
        ledger = self.ledgers[number]
        return median_us(ledger.charged_us(CANDIDATE, self._rules)) - median_us(np.array(ledger.times_us[CANDIDATE]))

    def work_outside_us(self, number: int) -> float:
        """The time added to each call of the kernel for work in decoys and after its end, in the worst launch."""
        return float(self.ledgers[number].outside_us().max())

    def gathered_us(self) -> dict[int, float]:
        """The time added to each call of the kernel, by configuration, because few calls worked for all others.

        Raises Fault if the mean visit takes much more time than the median visit, but chance may explain this: only
        another judging can decide.
        """
        if not self._session.decoys:
            return {}
        visible = [number for number, ledger in enumerate(self.ledgers) if not ledger.config.hidden]
        found = gathered([self.ledgers[number] for number in visible])
        is_sure = found.share > _SURE_ERRORS * found.error
        if found.share > _GATHERED_SHARE and is_sure:
            calls_us = [median_us(self.ledgers[number].charged_us(CANDIDATE, self._rules)) for number in visible]
            shares = zip(visible, found.by_config, calls_us, strict=True)
            return {number: max(0.0, share) * call_us for number, share, call_us in shares}
        if found.share > max(_DOUBTFUL_SHARE, _ONE_CALL_ERRORS * found.error) and not is_sure:
            more = f"{found.share:.0%} ± {found.error:.0%} longer than its median call"
            told = f"the kernel's mean call is {more}: the machine is too noisy to tell whether that is chance"
            raise Fault(Verdict.NOISY, told)
        return {}

    def used_up_us(self) -> float:
        """The time added to each call of the kernel because its calls use up memory that was prepared before them.

        It is the time that the operating system needs to clear as much memory as a whole round uses up. It is not
        known which calls of the round use it up; calls of honest kernels use up none.
        """
        of_a_round = sum(ledger.calls_of_a_visit(CANDIDATE) for ledger in self.ledgers if not ledger.config.hidden)
        configs = [ledger.config for ledger in self.ledgers]
        memory_bytes = sum(item.nbytes for config in configs for item in config.tensors)
        memory_bytes += sum(item.nbytes for config in configs for item in config.results)
        used_bytes = self._watch.used_bytes(of_a_round, memory_bytes)
        return used_bytes * fresh_us_per_byte() if used_bytes > 0 else 0.0

    def _verify_step(self, number: int, distribution: str, *, with_baselines: bool) -> None:
        self.give_up_if_late()
        decoys = self._number_of_decoys(number)
        choice = self._session.fill(number, distribution, decoys=decoys)
        if with_baselines:
            self._verify_baselines(number, choice)
        ledger = self.ledgers[number]
        ledger.fault = self._warm_up(CANDIDATE, number, decoys, checked=True)
        if ledger.fault is not None:  # on values of a decoy, so another call on those that count says nothing of it
            return
        ledger.fault = self._fresh_call(number, choice)
        if ledger.fault is not None and ledger.fault.verdict is Verdict.INCORRECT_VALUE:
            ledger.fault = self._repeated(number, choice, ledger.fault)

    def _verify_baselines(self, number: int, choice: int) -> None:
        """If eager is wrong, the task is broken. If torch.compile is wrong, it is no baseline on this configuration."""
        self._session.show(number)
        comparison = self._compared(number, choice, EAGER)
        if not comparison.ok:
            raise RefereeError(f"the eager baseline is wrong ({comparison.distribution}): {comparison.reason}")
        if self.compile_problems[number] is None:
            comparison = self._compared(number, choice, COMPILE)
            if not comparison.ok:
                self.compile_problems[number] = f"its results are wrong: {comparison.reason}"
                self._compile_was_wrong[number] = (self._session.values_of(number), choice)

    def _compared(self, number: int, choice: int, function: int) -> CallComparison:
        self._session.call_baseline(number, choice, function, compared=True)
        comparison = self._session.compare("baseline", number, choice)
        if not comparison.intact:
            raise Fault(Verdict.TAMPERING, "the inputs changed while the submission was frozen")
        return comparison

    def demand_wrong_compile(self) -> None:
        """Repeats the calls of torch.compile that were wrong, now that the submission's processes have been ended.

        Raises Fault, NOISY, if one is right now: device code that was left running could have spoilt its inputs, so
        that a stronger baseline would not count.
        """
        self._session.turn(0)  # as when they were verified
        for number, (values, choice) in self._compile_was_wrong.items():
            if self.ledgers[number].config.hidden:
                continue
            self._session.fill_again(values)
            self._session.show(number)
            if self._compared(number, choice, COMPILE).ok:
                key = self.ledgers[number].config.key
                told = f"torch.compile was wrong beside the submission and is right without it ({key})"
                raise Fault(Verdict.NOISY, f"something disturbed the GPU: {told}")

    def _number_of_decoys(self, number: int) -> int:
        if not self._session.decoys:
            return 0
        ledger = self.ledgers[number]
        return number_of_decoys(ledger.quickest_us, sum(item.nbytes for item in ledger.config.tensors), _RANDOM)

    def _warm_up(
        self, who: Contender, number: int, count: int, made: list[CallResult] | None = None, *, checked: bool
    ) -> Fault | None:
        """Makes the `count` calls on decoys of a visit and appends them to `made`.

        Each takes a random input set, so decoys reveal nothing about the call that counts. Inputs are written anew
        before each call, so to a contestant the call that counts looks like a call on a decoy. The kernel meets no
        values twice: it could answer at once and work for other calls in the time of this one.
        """
        draw = self._session.new_decoy if who == CANDIDATE else self._session.any_decoy
        for place in range(count):
            decoys, choice = draw(number)
            self._session.show(number, decoys=decoys)
            compared = (checked and place == 0) or secrets.randbelow(_CHECK_DECOYS_ONCE_IN) == 0
            decoy = self._call(who, number, choice, compared=compared)
            if made is not None:
                made.append(decoy)
            fault = self._check(number, choice, decoy, compare=compared) if who == CANDIDATE else None
            if fault is not None:
                return fault
        return None

    def _fresh_call(self, number: int, choice: int) -> Fault | None:
        self._session.show(number)
        return self._check(number, choice, self._call(CANDIDATE, number, choice))

    def _check(self, number: int, choice: int, result: CallResult, *, compare: bool = True) -> Fault | None:
        ledger = self.ledgers[number]
        ledger.calls += 1
        self._has_met_hidden |= ledger.config.hidden
        fault = call_fault(result, quoted=not self._has_met_hidden)
        if fault is not None or not compare:
            return fault
        comparison = self._session.compare("candidate", number, choice)
        ledger.note(comparison)
        if not comparison.intact:
            return Fault(Verdict.REJECTED, "the kernel wrote into its inputs, which belong to the caller")
        if not comparison.ok:
            return Fault(Verdict.INCORRECT_VALUE, comparison.reason)
        ledger.note_right(result)
        return None

    def _repeated(self, number: int, choice: int, fault: Fault) -> Fault:
        """Repeats a wrong call on the same input. If a result is right, the verdict is NONDETERMINISTIC."""
        for _ in range(_REPEATS_OF_A_WRONG_CALL):
            again = self._fresh_call(number, choice)
            if again is None:
                return Fault(
                    Verdict.NONDETERMINISTIC, f"the same input gave a right and a wrong result: {fault.reason}"
                )
            if again.verdict is not Verdict.INCORRECT_VALUE:
                return again
        return fault

    def _round(self, number: int) -> Iterator[int]:
        """Every timed configuration once, in random order; every tenth round has the hidden configurations as well."""
        chosen = [
            place
            for place, ledger in enumerate(self.ledgers)
            if not ledger.config.hidden or number % _HIDDEN_EVERY_ROUNDS == 0
        ]
        _RANDOM.shuffle(chosen)
        yield from chosen

    def _time_step(self, number: int, *, backwards: bool, noted: bool = True) -> None:
        self.give_up_if_late()
        ledger, planned = self.ledgers[number], self._number_of_decoys(number)
        choice = self._session.fill(number, decoys=planned)
        results: dict[Contender, CallResult] = {}
        for who in self._order(number, backwards=backwards):
            decoys: list[CallResult] = []
            count = planned if who == CANDIDATE else self._number_of_decoys(number)
            ledger.fault = self._warm_up(who, number, count, decoys, checked=False)
            if ledger.fault is not None:
                return
            self._session.show(number)
            result = self._call(who, number, choice)
            results[who] = with_decoys(result, decoys)
        ledger.fault = self._check(number, choice, results[CANDIDATE])
        if ledger.fault is None and noted:
            self._note(ledger, results)

    def _note(self, ledger: ConfigTally, results: dict[Contender, CallResult]) -> None:
        if any(result.throttled for result in results.values()):
            ledger.throttled += 1
            return
        ledger.launches.append(self._session.launch)
        for who, result in results.items():
            ledger.note_time(who, result)

    def _call(self, who: Contender, number: int, choice: int, *, compared: bool = True) -> CallResult:
        if who == CANDIDATE:
            return self._session.call_candidate(number, choice, compared=compared)
        result = self._session.call_baseline(number, choice, who[1])
        self.ledgers[number].note_right(result)
        return result

    def _order(self, number: int, *, backwards: bool) -> Sequence[Contender]:
        compiled: list[Contender] = [("baseline", COMPILE)] if self.compile_problems[number] is None else []
        order = [("baseline", EAGER), *compiled, CANDIDATE]
        return order[::-1] if backwards else order

    def _null_call(self) -> CallResult:
        """A call that computes nothing: it takes what a call costs beside the kernel, such as waking and Python.

        Made between the steps, since a process that has done nothing yet answers faster than a busy one.
        """
        choice = self._session.fill(0)
        self._session.show(0)
        return self._session.call_baseline(0, choice, NOTHING)

    def _alive(self) -> bool:
        return self._session.candidate.child.exit_code() is None

    def _tell(self, step: Step) -> None:
        if self._watcher.cancelled():
            raise Cancelled
        self._watcher.on_step(step)

    def give_up_if_late(self) -> None:
        """Raises Fault if verifying and timing have taken longer than the rules allow."""
        if time.monotonic() > self._deadline:
            limit = self._rules.limits.judging_s
            raise Fault(Verdict.TIMEOUT, f"verifying and timing together took more than {limit:g} s")


def number_of_decoys(quickest_us: float, input_bytes: int, lot: random.Random) -> int:
    """A random number of decoys for one visit, if the shortest call so far took `quickest_us` on `input_bytes`."""
    most = min(_DECOYS_MOST, (_DECOYS_BYTES / max(1, input_bytes) + 1) / 2)
    mean = max(min(_DECOYS_US / quickest_us, most), _DECOYS_LEAST)
    return 1 + int(2 * (mean - 1) * lot.random() + lot.random())
