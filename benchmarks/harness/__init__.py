"""The judge as a library: `judge(source, task, rules, paths)` gives a `Report`.

Everything outside this package imports from here and from nowhere below. The package imports neither Django nor
Celery, and torch only in `child/`, which runs in processes of its own and is never imported.
"""

from pathlib import Path

from .ahead import compile_source, is_prepared, prepare_side_by_side, prepare_task
from .compilers.builds import Build, build_with, workshop
from .compilers.gxx import machine_fingerprint
from .compilers.identity import object_key, source_key
from .compilers.lexing import literal_spans
from .compilers.python_syntax import SyntaxProblem, python_tree, syntax_problem
from .compilers.static_checks import StaticCheck, check_source
from .compilers.toolchain import Compilation, Workshop, digest, host_compiler, host_compiler_version, torch_folder
from .compilers.tvm_ffi import tvm_ffi_version
from .dtypes import DTYPES
from .errors import (
    Cancelled,
    ChildSurvived,
    HarnessError,
    IsolationError,
    NotProfiled,
    Overloaded,
    ProcessorsBusy,
    RefereeError,
    RuleSetError,
    SupervisorError,
    TaskError,
    UsageError,
)
from .foreign.examine import GPU_TASK, ONE_SHAPE, TOO_LARGE_FOR_A_GPU, Examined, ForeignConfig, ForeignTask, examine
from .hosts.ending import ended_in_order
from .hosts.locks import file_lock, host_build_lock
from .hosts.processors import KINDS as PROCESSOR_KINDS
from .hosts.processors import processor
from .languages import (
    LANGUAGE_OF_SUFFIX,
    LANGUAGES,
    defines,
    device_class,
    device_classes,
    is_python,
    language_of_file,
    language_of_text,
    read_alike,
)
from .looks import Looks
from .measuring.faults import DEVICE_STUCK
from .measuring.memory import SharedMemory
from .profiles.metrics import SHOWN as METRICS
from .profiles.metrics import STALLS
from .profiles.records import Profile
from .profiling import profile
from .protocol import Link, ProtocolError, clean_text, make_links
from .report import VERDICT_TEXTS, ConfigReport, Flag, Report, Score, StageReport, Verdict, VerdictText
from .rules import Rules, load_rules
from .sandbox.isolation import Child, Isolation, Room, child_code, demand_isolation, inside, isolation_in_force, spawn
from .sandbox.outbox import NotTaken, TooMuch, read_file
from .sandbox.seccomp import builder_program, candidate_program, gpu_program
from .sandbox.seccomp import supported as seccomp_supported
from .scores.conditions import conditions_of, timing_revision
from .scores.counting import BOUND_TRUSTS, is_bound, what_counts
from .scores.pooling import SpeedupEstimate, pooled
from .scores.quantiles import NORMAL_95
from .scores.scoring import geometric_mean
from .scores.sol import sol_score
from .selfcheck import builds_ahead, self_test
from .shelf import Shelf
from .source import CancelCheck, Paths, Source, Step, Watcher, never_cancelled
from .stages import audit, judge, remove_scratch
from .tasks.expressions import arithmetic
from .tasks.shipped import shipped_kernel
from .tasks.spec import (
    Argument,
    Config,
    Result,
    TaskSpec,
    TensorArgument,
    ValueArgument,
    find_task,
    load_suite,
    resized,
    weight_of_key,
)
from .tasks.spec_json import spec_from_json, spec_to_json
from .tasks.starter import definition_of, starter_code
from .together import judge_together
from .tracks import CPU, Device, devices_here, keep_ready, room_with_gpu, versions_on

__all__ = [
    "BOUND_TRUSTS",
    "CPU",
    "DEVICE_STUCK",
    "DTYPES",
    "GPU_TASK",
    "LANGUAGES",
    "LANGUAGE_OF_SUFFIX",
    "METRICS",
    "NORMAL_95",
    "ONE_SHAPE",
    "PROCESSOR_KINDS",
    "STALLS",
    "TOO_LARGE_FOR_A_GPU",
    "VERDICT_TEXTS",
    "Argument",
    "Build",
    "CancelCheck",
    "Cancelled",
    "Child",
    "ChildSurvived",
    "Compilation",
    "Config",
    "ConfigReport",
    "Device",
    "Examined",
    "Flag",
    "ForeignConfig",
    "ForeignTask",
    "HarnessError",
    "Isolation",
    "IsolationError",
    "Link",
    "Looks",
    "NotProfiled",
    "NotTaken",
    "Overloaded",
    "Paths",
    "ProcessorsBusy",
    "Profile",
    "ProtocolError",
    "RefereeError",
    "Report",
    "Result",
    "Room",
    "RuleSetError",
    "Rules",
    "Score",
    "SharedMemory",
    "Shelf",
    "Source",
    "SpeedupEstimate",
    "StageReport",
    "StaticCheck",
    "Step",
    "SupervisorError",
    "SyntaxProblem",
    "TaskError",
    "TaskSpec",
    "TensorArgument",
    "TooMuch",
    "UsageError",
    "ValueArgument",
    "Verdict",
    "VerdictText",
    "Watcher",
    "Workshop",
    "arithmetic",
    "audit",
    "build_with",
    "builder_program",
    "builds_ahead",
    "candidate_program",
    "check_source",
    "child_code",
    "clean_text",
    "compile_source",
    "conditions_of",
    "default_rules",
    "default_suites",
    "defines",
    "definition_of",
    "demand_isolation",
    "device_class",
    "device_classes",
    "devices_here",
    "digest",
    "ended_in_order",
    "examine",
    "file_lock",
    "find_task",
    "geometric_mean",
    "gpu_program",
    "host_build_lock",
    "host_compiler",
    "host_compiler_version",
    "inside",
    "is_bound",
    "is_prepared",
    "is_python",
    "isolation_in_force",
    "judge",
    "judge_together",
    "keep_ready",
    "language_of_file",
    "language_of_text",
    "literal_spans",
    "load_rules",
    "load_suite",
    "machine_fingerprint",
    "make_links",
    "never_cancelled",
    "object_key",
    "pooled",
    "prepare_side_by_side",
    "prepare_task",
    "processor",
    "profile",
    "python_tree",
    "read_alike",
    "read_file",
    "remove_scratch",
    "resized",
    "room_with_gpu",
    "seccomp_supported",
    "self_test",
    "shipped_kernel",
    "sol_score",
    "source_key",
    "spawn",
    "spec_from_json",
    "spec_to_json",
    "starter_code",
    "syntax_problem",
    "timing_revision",
    "torch_folder",
    "tvm_ffi_version",
    "versions_on",
    "weight_of_key",
    "what_counts",
    "workshop",
]


def default_suites() -> Path:
    """The folder of the suites that come with kbench."""
    return Path(__file__).parents[1] / "suites"


def default_rules(name: str = "rk-2") -> Rules:
    """A rule set that comes with kbench. Raises RuleSetError."""
    return load_rules(Path(__file__).parents[1] / "rules" / f"{name}.toml")
