"""Judgings on the processor that keep their trusted processes for the next submission to the same task.

Referee and baseline import torch and load the task once; the process of the submission is new each time, in a sandbox
of its own, and nothing between it and the others differs. For tests of verdicts. Not for tests of how processes
start and end: those, the cases about time and `make redteam` judge with `judge` alone, which starts all anew.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from benchmarks.harness import Rules, TaskSpec, default_rules, tracks
from benchmarks.harness.measuring import baselines
from benchmarks.harness.measuring.contestants import Actor, Contestant
from benchmarks.harness.measuring.faults import Fault
from benchmarks.harness.measuring.memory import describe
from benchmarks.harness.measuring.session import CpuSession, CpuSetting


def few_calls(rules: Rules) -> Rules:
    """Of every configuration two visits to verify it and two timed steps, one in each order."""
    return replace(
        rules, verify=replace(rules.verify, calls_per_config=2), time=replace(rules.time, steps_per_config=2)
    )


def one_of_each_group(task: TaskSpec, device: str) -> TaskSpec:
    """The task with the first configuration of each group on this class of devices, a hidden one included."""
    first = {config.group: config for config in reversed(task.configs_for(device))}
    return replace(task, configs={device: tuple(reversed(first.values()))})


class Crews:
    """The open session of one task without a submission: the last one that was asked for."""

    def __init__(self) -> None:
        self._key: tuple[Any, ...] = ()
        self._open = ExitStack()
        self._session: CpuSession | None = None

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """What is judged on the processor meanwhile shares the processes that are kept here."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tracks, "CpuSession", partial(WarmSession, crews=self))
            yield

    def session(self, setting: CpuSetting) -> CpuSession:
        time, data = setting.rules.time, setting.scratch.parent
        key = (setting.task, setting.prepared, time.input_sets, time.input_sets_max_bytes, data)
        if self._session is None or key != self._key:
            self.end()
            folder = Path(tempfile.mkdtemp(prefix="crew-", dir=data))
            self._open.callback(shutil.rmtree, folder, ignore_errors=True)
            rules = replace(setting.rules, limits=default_rules().limits)
            control = replace(setting, rules=rules, scratch=folder, control=True)
            self._session, self._key = self._open.enter_context(CpuSession(control)), key
        return self._session

    def end(self) -> None:
        self._open.close()
        self._session = None


class Guest(Contestant):
    """A submission whose results are copied to where the referee of an open session looks for them."""

    def __init__(self, host: CpuSession) -> None:
        baseline = host.baseline
        super().__init__("candidate", host.setting.configs, host._layout, baseline._inputs_fd, baseline._cores)
        self.outputs.close()
        self.outputs = host.candidate.outputs

    def close(self) -> None:
        Actor.close(self)  # the memory of the results belongs to the host


class WarmSession(CpuSession):
    """One submission in an open session; a control run is a session of its own."""

    def __init__(self, setting: CpuSetting, *, crews: Crews) -> None:
        super().__init__(setting)
        self._crews = crews

    def _open(self) -> None:
        setting = self.setting
        if setting.control:
            return super()._open()
        assert setting.rules.time.launches == 1, "only quick judgings can share processes"
        host = self._crews.session(setting)
        guest = Guest(host)
        self._stack.callback(guest.kill)
        self._referee, self._casts, self._inputs_fd = host._referee, [(host.baseline, guest)], host._inputs_fd
        guest.start(self._candidate_room(), setting.scratch / "candidate0.log")
        common = baselines.opening(setting.task, describe(setting.configs, self._layout), setting.cores.threads)
        self._open_candidate(guest, {name: value for name, value in common.items() if name != "task"})
        return self._let_load([guest])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What ends without a verdict may have left the others in the middle of something."""
        super().__exit__(kind, error, trace)
        if kind is not None and not issubclass(kind, Fault):
            self._crews.end()
