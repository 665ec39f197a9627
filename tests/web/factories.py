"""Rows for tests of pages, made the way the site makes them: synced tasks, submissions and reports through services.

`many_entries` alone writes rows in bulk, because thousands of judgings would take minutes.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.utils import timezone

from benchmarks import services
from benchmarks.boards.standings import boards_marked
from benchmarks.catalogue import devices
from benchmarks.harness import ConfigReport, Device, Flag, Report, Score, StageReport, Verdict, timing_revision
from benchmarks.judgings import moves
from benchmarks.models import (
    CodeBlob,
    DeviceKind,
    Evaluation,
    Method,
    RuleSet,
    Standing,
    Submission,
    TaskVersion,
    Worker,
)
from benchmarks.states import State, TaskVersionStatus, WorkerRole, WorkerState
from tests.fakes import CPU, GPU
from tests.rows import cpu_kind

TASK = ("robust-kbench", "mnist_linear_relu", "forward")
SOURCE = """#include <torch/extension.h>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    return at::linear(x, weights, biases).relu_();
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""


def user(name: str) -> Any:
    return get_user_model().objects.create_user(name, password=f"{name}-has-a-long-password")


def version(op: str = TASK[1], direction: str = TASK[2]) -> TaskVersion:
    return TaskVersion.objects.select_related("task__suite").get(
        task__op=op, task__direction=direction, status=TaskVersionStatus.ACTIVE
    )


def queued(**options: Any) -> Evaluation:
    """A queued evaluation of `SOURCE`, or of `text`."""
    return services.submission_create(
        **{"version": version(), "text": SOURCE, "language": "cpp", "title": "Fused loop", **options}
    )


def gpu_kind() -> DeviceKind:
    """The kind as a worker with such a GPU registers it."""
    return devices.register(GPU)


def worker(role: str = WorkerRole.JUDGE, device: Device = CPU, **columns: Any) -> Worker:
    now = timezone.now()
    works = role != WorkerRole.MAINT
    defaults = {
        "role": role,
        "device_kind": devices.register(device) if works else None,
        "device": device.name if works else "",
        "state": WorkerState.ONLINE,
        "started": now,
        "heartbeat": now,
        "isolation": "bubblewrap",
        "isolation_strong": True,
        **columns,
    }
    name = f"test-{role}-{device.kind}"
    known = Worker.objects.filter(name=name)
    return known.get() if known.update(**defaults) else Worker.objects.create(name=name, **defaults)


def claimed_for_judging(device: Device = CPU) -> moves.Holding:
    """The next evaluation in the queue, compiled and in the hands of a judging worker."""
    kind = devices.register(device)
    worker(WorkerRole.COMPILE, device)
    Evaluation.objects.queued().filter(device_kind=kind, built=None).update(built=timezone.now())
    holding = moves.evaluation_claim(worker(device=device), kind)
    assert holding is not None
    return holding


def judged(report: Report | None = None, device: Device = CPU, **options: Any) -> Evaluation:
    """A submission that went through the queue and ended with `report`; by default it passes."""
    evaluation = queued(**options)
    holding = claimed_for_judging(device)
    moves.record_report(holding, report or passing())
    evaluation.refresh_from_db()
    return evaluation


def judged_on_gpu(report: Report | None = None, **options: Any) -> Evaluation:
    fields = {"device_kind": gpu_kind(), "language": "cuda", **options}
    return judged(report or passing_on_gpu(), GPU, **fields)


def passing_on_gpu(speedup: float = 3.0, trust: str = "bounded", **fields: Any) -> Report:
    """The report of an H200: events on the GPU as times, each with its bound, and the state of the device."""
    report = passing(speedup, device_class="cuda", trust=trust)
    configs = tuple(
        replace(item, excess_us=1.5, copied=True) if item.group != "hidden" else item for item in report.configs
    )
    environment = {
        "gpu": "NVIDIA H200",
        "driver": "580.159",
        "timing_revision": timing_revision("cuda"),
        "clocks_before_mhz": 1980,
        "clocks_after_mhz": 1965,
        "temperature_c": 41,
        "throttled_samples": 2,
        "copy_gb_per_s": 4230.5,
        "cores": 16,
    }
    return replace(
        report, language="cuda", device_kind="nvidia-h200", configs=configs, environment=environment, **fields
    )


def passing(
    speedup: float = 1.5,
    half_width: float = 0.02,
    *,
    device_class: str = "cpu",
    trust: str = "supervisor",
    **fields: Any,
) -> Report:
    """A report with times for every shown configuration of the task and one hidden, correct and untimed."""
    shown = version().definition["devices"][device_class]["configs"]
    timed = tuple(_timed(item, speedup, half_width) for item in shown)
    hidden = ConfigReport(key="hidden 1", group="hidden", correct=True, max_abs_error=1e-7, calls=4, checked_calls=4)
    score = Score(
        speedup=speedup,
        ci95=(speedup * (1 - half_width), speedup * (1 + half_width)),
        vs_eager=speedup,
        vs_compile=speedup * 1.2,
        worst_config=shown[0]["key"],
        timing_trust=trust,
    )
    return report(Verdict.PASS, "Correct and timed.", score=score, configs=(*timed, hidden), **fields)


def with_energy(report: Report, mj: float, half_width: float) -> Report:
    """The same report with an energy of each timed configuration."""
    ci95 = (mj * (1 - half_width), mj * (1 + half_width))
    configs = (
        replace(item, energy_mj=mj, energy_ci95_mj=ci95) if item.kernel_us is not None else item
        for item in report.configs
    )
    return replace(report, configs=tuple(configs))


def report(verdict: Verdict, reason: str, **fields: Any) -> Report:
    stages = (StageReport("static", 0.001), StageReport("compile", 6.2, 0), StageReport("verify", 1.0))
    defaults = {
        "task": "mnist_linear_relu/forward",
        "suite": "robust-kbench",
        "language": "cpp",
        "device_kind": CPU.kind,
        "ruleset": "rk-2",
        "source_sha256": "0" * 64,
        "stages": stages,
        "isolation": "bubblewrap",
        "environment": {"torch": "2.13.0", "cores": 2, "cpu": CPU.model},
    }
    return Report(verdict=verdict, reason=reason, **{**defaults, **fields})


def failing(log: str = "", verdict: Verdict = Verdict.COMPILE_ERROR, reason: str = "It does not compile.") -> Report:
    stages = (StageReport("static", 0.001), StageReport("compile", 2.0, 1, log))
    return report(verdict, reason, stages=stages)


def gated(speedup: float = 12.0) -> Report:
    return passing(speedup, gates=(Flag("too-fast", "More than 10 times faster than the stronger baseline."),))


def _timed(config: dict[str, Any], speedup: float, half_width: float) -> ConfigReport:
    return ConfigReport(
        key=config["key"],
        group=config["group"],
        correct=True,
        max_abs_error=2.5e-7,
        max_rel_error=1e-6,
        kernel_us=100.0 / speedup,
        eager_us=100.0,
        compile_us=120.0,
        kernel_iqr_us=2.0,
        eager_iqr_us=3.0,
        compile_iqr_us=4.0,
        speedup=speedup,
        ci95=(speedup * (1 - half_width), speedup * (1 + half_width)),
        roofline_fraction=0.4,
        calls=64,
        checked_calls=64,
    )


def many_entries(count: int) -> None:
    """`count` accepted public submissions on one board, best first."""
    shared = {
        "task_version": version(),
        "ruleset": RuleSet.objects.get(name="rk-2"),
        "device_kind": cpu_kind(),
    }
    submissions = _many_submissions(shared["task_version"], count)
    now = timezone.now()
    evaluations = Evaluation.objects.bulk_create(
        Evaluation(
            **shared,
            submission=submission,
            state=State.DONE,
            verdict="PASS",
            reason_text="Correct and timed.",
            queued=now,
            claimed=now,
            finished=now - timedelta(seconds=place),
            timing_trust="supervisor",
            worst_config="batch_size=64",
            **_score(count - place),
        )
        for place, submission in enumerate(submissions)
    )
    Standing.objects.bulk_create(
        Standing(
            **shared,
            holder=f"method:{evaluation.submission.code}",
            evaluation=evaluation,
            rank=place + 1,
            verified_at=evaluation.finished,
            **_score(count - place),
        )
        for place, evaluation in enumerate(evaluations)
    )
    boards_marked([shared["task_version"].pk])


def _many_submissions(task_version: TaskVersion, count: int) -> list[Submission]:
    blob, _ = CodeBlob.objects.get_or_create(
        sha256="f" * 64, defaults={"text": SOURCE, "size_bytes": len(SOURCE), "line_count": 7}
    )
    method = Method.objects.get(slug="human")
    return Submission.objects.bulk_create(
        Submission(task_version=task_version, method=method, blob=blob, language="cpp") for _ in range(count)
    )


def _score(place: int) -> dict[str, float]:
    score = 1.0 + place / 1000
    return {"score": score, "score_lo": score * 0.999, "score_hi": score * 1.001}
