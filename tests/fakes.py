"""A judge that does what the source asks for, so that tests drive the real worker path without a compiler.

Lines of the source such as `// verdict: INCORRECT_VALUE`, `// speedup: 2.5`, `// seconds: 3`, `// gate: too fast`,
`// audit: TAMPERING` (or `fails`, `broken`, `needs FILE`), `// flag: CODE`, `// profile: fails`, `// log: TEXT`,
`// raises` or `// counts: FILE` steer it;
`#` does as well as `//`. Does NOT measure anything.
"""

import re
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.emulator import EmulatorFinding, EmulatorReport, EmulatorVerdict
from benchmarks.harness import (
    Build,
    Cancelled,
    ConfigReport,
    Device,
    Flag,
    Isolation,
    NotProfiled,
    Report,
    Score,
    StageReport,
    Step,
    SupervisorError,
    Verdict,
    device_class,
)
from tests.profiled import profile

CPU = Device("cpu", "cpu-avx2", "CPU with AVX2", "cpu", "Fake Processor 9000")
GPU = Device("cuda:0", "nvidia-h200", "NVIDIA H200", "cuda")
TRUST = {"cpu": "supervisor", "cuda:0": "bounded"}


def wish(text, name, default=""):
    found = re.search(rf"^(?://|#) {name}: *(.*)$", text, re.MULTILINE)
    return found.group(1).strip() if found else default


def report_for(source, task, *, device=CPU, verdict="PASS", speedup=2.0, half_width=0.02, gate="", log=""):
    """A report as the harness would write it for a source that does what `verdict` says."""
    passed = verdict == "PASS"
    ci95 = (speedup * (1 - half_width), speedup * (1 + half_width))
    shown = [config for config in task.configs_for(device_class(source.language)) if not config.hidden]
    configs = tuple(
        ConfigReport(
            key=config.key,
            group=config.group,
            correct=passed,
            kernel_us=100.0 / speedup if passed else None,
            eager_us=100.0 if passed else None,
            compile_us=120.0 if passed else None,
            speedup=speedup if passed else None,
            ci95=ci95 if passed else None,
            max_abs_error=1e-6,
            calls=10,
            checked_calls=10,
        )
        for config in shown
    )
    score = Score(speedup, ci95, speedup, speedup * 1.2, shown[0].key, TRUST[device.name]) if passed else None
    return Report(
        task=task.name,
        suite=task.suite,
        language=source.language,
        device_kind=device.kind,
        ruleset="rk-2",
        verdict=Verdict(verdict),
        reason=f"A fake judge was asked for {verdict}.",
        source_sha256=source.sha256,
        score=score,
        configs=configs if verdict != "COMPILE_ERROR" else (),
        stages=(StageReport("compile", 1.0, 0, log), StageReport("verify", 2.0, 0), StageReport("time", 3.0, 0)),
        gates=(Flag("gate", gate),) if gate else (),
        isolation="fake",
        environment={"machine": "fake"},
    )


class FakeJudge:
    known = (CPU,)

    def devices(self):
        return self.known

    def compile(self, assignment, watcher):
        source = assignment.source
        watcher.on_step(Step("compile", "started"))
        self._work(float(wish(source.text, "compile seconds", "0")), watcher.cancelled)
        watcher.on_step(Step("compile", "finished"))
        failed = wish(source.text, "verdict") == "COMPILE_ERROR"
        return Build(None if failed else Path("fake.so"), "the log", 0.1, False, 1 if failed else 0)

    def prepare(self, task, rules, *, device, watcher):
        watcher.on_step(Step("compile", "progress", 0, 3, "torch.compile builds its baseline"))

    def is_prepared(self, task, rules, *, device):
        return True

    def judge(self, assignment, watcher):
        source, task, device = assignment.source, assignment.task, assignment.device
        text = source.text
        if wish(text, "counts"):
            with Path(wish(text, "counts")).open("a") as file:
                file.write("judged\n")
        for number, stage in enumerate(("compile", "verify", "time"), 1):
            watcher.on_step(Step(stage, "started", 0, 3))
            watcher.on_step(Step(stage, "progress", number, 3, f"configuration {number}"))
        self._work(float(wish(text, "seconds", "0")), watcher.cancelled)
        watcher.on_step(Step("time", "finished"))
        if re.search("^(//|#) raises", text, re.MULTILINE):
            raise SupervisorError("the fake judge was asked to fail")
        verdict, speedup = wish(text, "verdict", "PASS"), float(wish(text, "speedup", "2.0"))
        wishes = {"verdict": verdict, "speedup": speedup, "gate": wish(text, "gate"), "log": wish(text, "log")}
        report = report_for(source, task, device=self._named(device), **wishes)
        return replace(report, flags=(Flag(wish(text, "flag"), "asked for"),)) if wish(text, "flag") else report

    def emulate(self, assignment, watcher):
        text = assignment.source.text
        self._work(float(wish(text, "seconds", "0")), watcher.cancelled)
        if re.search("^// raises", text, re.MULTILINE):
            raise SupervisorError("the fake emulator was asked to fail")
        verdict = EmulatorVerdict(wish(text, "emulator", "CORRECT_HERE"))
        where = {"kernel": "linear", "launch_line": 9, "line": 3, "block": (0, 0, 0), "thread": (1, 0, 0)}
        other = {"place": "byte 0 of sums", "other_line": 2, "other_block": 0, "other_thread": 5}
        race = EmulatorFinding("race", wish(text, "finding", "two threads write"), **where, **other)
        findings = (race,) if verdict is EmulatorVerdict.WRONG else ()
        reason = wish(text, "reason", f"A fake emulator was asked for {verdict}.")
        line = 3 if verdict is not EmulatorVerdict.CORRECT_HERE else None
        return EmulatorReport(verdict, reason, line, findings, configs=("a=1",), runs=3, compile_s=1.0, seconds=2.5)

    def profile(self, assignment, times_us, watcher):
        text = assignment.source.text
        self._work(float(wish(text, "seconds", "0")), watcher.cancelled)
        if wish(text, "profile") == "fails":
            raise NotProfiled("it launches no kernel")
        if re.search("^// raises", text, re.MULTILINE):
            raise SupervisorError("there is no profiler here")
        return profile(
            language=assignment.source.language, missing=tuple(f"{key}: {us}" for key, us in times_us.items())
        )

    def isolation(self):
        return Isolation("fake", True, "no sandbox at all: this is a fake judge")

    def versions(self, device):
        return {"compiler": "fake 1.0"}

    def builds_ahead(self):
        return ()

    def self_test(self, device):
        """Nothing can be wrong with a fake."""

    def _named(self, name):
        return next(device for device in self.known if device.name == name)

    def _work(self, seconds, cancelled):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if cancelled():
                raise Cancelled
            time.sleep(0.02)


class GpuJudge(FakeJudge):
    """On a machine with a GPU."""

    known = (CPU, GPU)

    def audit(self, assignment, report, watcher):
        source = assignment.source
        watcher.on_step(Step("audit", "started"))
        wanted = wish(source.text, "audit", "PASS")
        word, _, path = wanted.partition(" ")
        if word == "fails" or (word == "needs" and not Path(path).exists()):
            raise SupervisorError("there is no profiler here")
        if word == "broken":
            return replace(report, gates=(*report.gates, Flag("not-audited", "It could not be audited.")))
        if word == "TAMPERING":
            return replace(report, verdict=Verdict(wanted), reason="The profiler saw more.", score=None)
        return replace(report, score=replace(report.score, timing_trust="audited"))


class BrokenJudge(FakeJudge):
    def self_test(self, device):
        raise SupervisorError("a wrong kernel was accepted")


class WeakJudge(FakeJudge):
    def isolation(self):
        return Isolation("limits", False, "only limits of the operating system")
