"""The tables of the public data set with their columns, units and meanings.

Does NOT read any row: `rows.py` does.
"""

from ..data_tables import SPEEDUPS, ColumnKind, DataTable, columns
from ..extensions import extensions
from . import rows

SCHEMA_VERSION = 1  # raised when a column changes its meaning or goes; a new column leaves it as it is
TEXT, INTEGER, NUMBER, FLAG, TIME = (
    ColumnKind.TEXT,
    ColumnKind.INTEGER,
    ColumnKind.NUMBER,
    ColumnKind.FLAG,
    ColumnKind.TIME,
)

SUBMISSIONS = DataTable(
    "submissions",
    "Every public submission with its source. One row per submission.",
    (
        *columns(
            TEXT,
            submission_id="identifier, as in the address of its page",
            task="SUITE/OPERATION/DIRECTION",
        ),
        *columns(INTEGER, task_version="the version of the task that it was made for"),
        *columns(
            TEXT,
            task_sha256="hash of that version's definition",
            task_licence="of an imported task, as its suite's licence file says",
            task_origin="of an imported task: the address or folder of its suite, and the file",
            licence="of this entry; null: none was stated, and its author keeps all rights",
            language="cpp, cuda, triton or another language of the site",
            title="as its author wrote it",
            author="account, team (account), anonymous, or kbench for shipped examples",
            method="how it was made; the compare page compares methods",
            method_kind="human, agent, baseline or library",
            origin="web, api, cli, agent or example",
            moderation="ok, or invalidated by staff: readable, but not ranked",
        ),
        *columns(TIME, submitted_at="UTC: when it was submitted"),
        *columns(TEXT, source_sha256="hash of the source"),
        *columns(INTEGER, source_bytes="bytes: size of the source"),
        *columns(TEXT, source="the whole source"),
    ),
    rows.SUBMISSIONS,
    rows.submissions,
)

REPORTS = DataTable(
    "reports",
    "Every judging with a verdict. One row per evaluation and configuration; what belongs to the evaluation is "
    "repeated. An evaluation that ended before any configuration has one row without a configuration.",
    (
        *columns(TEXT, evaluation_id="identifier, as in the address of its page", submission_id="see submissions"),
        *columns(TEXT, task="SUITE/OPERATION/DIRECTION"),
        *columns(INTEGER, task_version="the version of the task that it was judged under"),
        *columns(
            TEXT,
            device="device kind, the same as on leaderboards",
            device_class="cpu or cuda",
            processor="model of the GPU or CPU that judged",
            ruleset="the rule set: speedups under different ones are not comparable",
            reason="initial, rejudge, verification, audit, site-audit, quick (never scored) or contest (finals)",
            verdict="PASS, or why it was not accepted",
            verdict_text="the verdict as a sentence",
        ),
        *columns(TIME, finished_at="UTC: when judging ended"),
        *SPEEDUPS,
        *columns(
            TEXT,
            worst_config="the configuration with the smallest speedup",
            timing_trust="who measured: supervisor (CPU), replayed, bounded or audited (GPU)",
            isolation="the sandbox",
        ),
        *columns(
            INTEGER,
            timing_revision="revision of the judge's timing: on a GPU the same kernel may get another score under "
            "another one; 0 on a CPU and for old evaluations",
        ),
        *columns(FLAG, calls_library="the source check found calls of library operators"),
        *columns(INTEGER, rank="on its leaderboard; null if a better entry of the author counts or none is ranked"),
        *columns(FLAG, under_review="the score is not confirmed yet"),
        *columns(
            TEXT,
            config="sizes and settings; hidden configurations are numbered",
            config_group="single, multi (timed) or hidden (checked only)",
        ),
        *columns(FLAG, correct="every result was within the task's tolerance of the float64 reference"),
        *columns(
            NUMBER,
            max_abs_error="unit of the result: largest absolute error",
            max_rel_error="1: largest error divided by the element's magnitude plus the root mean square of the result",
            of_tolerance="1: largest error as a share of the task's tolerance; null if results have different ones",
            kernel_us="µs: median time of a call",
            kernel_iqr_us="µs: interquartile range of the column before",
            eager_us="µs: median time of PyTorch eager, measured beside it",
            eager_iqr_us="µs: interquartile range of the column before",
            compile_us="µs: median time of torch.compile, measured beside it",
            compile_iqr_us="µs: interquartile range of the column before",
            speedup="×: the smaller of eager_us and compile_us, divided by kernel_us",
            speedup_lo="×: lower end of its 95 % interval",
            speedup_hi="×: upper end of its 95 % interval",
            roofline_fraction="1: share of the device's measured bandwidth or arithmetic that was reached",
            sol_score="1: score of SOL-ExecBench with our baseline and roofline; ranks nothing",
            energy_mj="mJ: of one call, of the whole GPU board or processor package; null where it was not measured",
            energy_lo_mj="mJ: lower end of its 95 % interval",
            energy_hi_mj="mJ: upper end of its 95 % interval",
            excess_us="µs: on a GPU, what the referee's clock saw beyond the claimed time",
        ),
        *columns(INTEGER, calls="calls made", checked_calls="calls whose results were compared with the reference"),
        *columns(TEXT, failure="what went wrong on this configuration"),
    ),
    rows.SUBMISSIONS,
    rows.reports,
)

SAMPLES = DataTable(
    "samples",
    "The times from which the medians are computed: one row per evaluation, configuration and launch. Each time is the "
    "median of the calls in that launch.",
    (
        *columns(TEXT, evaluation_id="see reports", submission_id="see submissions", config="see reports"),
        *columns(INTEGER, launch="number of the launch, from 1"),
        *columns(
            NUMBER,
            kernel_us="µs: median time of a call in this launch",
            eager_us="µs: the same of PyTorch eager",
            compile_us="µs: the same of torch.compile",
        ),
    ),
    rows.SUBMISSIONS,
    rows.samples,
)

KERNELBOT = DataTable(
    "kernelbot",
    "The same judgings with the columns of GPU MODE's kernelbot-data, for tools that read it. One row per evaluation.",
    (
        *columns(
            INTEGER,
            submission_id="number made of our identifier",
            leaderboard_id="number made of the hash of the task version",
        ),
        *columns(TEXT, problem_name="our task", user_id="the same as user_name", user_name="our author"),
        *columns(INTEGER, code_id="number made of the hash of the source"),
        *columns(TEXT, file_name="submission with the suffix of its language"),
        *columns(TIME, submission_time="UTC: when it was submitted"),
        *columns(TEXT, status="succeeded, or failed where the judge itself failed"),
        *columns(
            NUMBER, score="s: geometric mean of the kernel's times, timed configurations alone; null unless accepted"
        ),
        *columns(FLAG, passed="whether the verdict is PASS; null where the judge itself failed"),
        *columns(
            TEXT, mode="leaderboard, or test for a quick check", runner="our device kind", code="the whole source"
        ),
    ),
    rows.SUBMISSIONS,
    rows.kernelbot,
)


def tables() -> list[DataTable]:
    """All of them, those of other apps included."""
    added = [table for extension in extensions() for table in extension.tables()]
    return [SUBMISSIONS, REPORTS, SAMPLES, *added, KERNELBOT]
