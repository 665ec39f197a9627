"""Agent runs as an extension of the benchmark: log stream, costs, metrics, data set, and the runs of an account."""

from benchmarks.extensions import Extension, OwnTopic, RecordedFormat

from .. import selectors, services
from ..record import feed, kept
from ..record.kept_file import FORMAT
from .costs import spent_by_method
from .data import CANDIDATES
from .exports import files_of
from .metrics import run_metrics
from .readers import reference_reader

RUNS = Extension(
    topics={"run": OwnTopic(feed.may_follow, feed.RunLog())},
    metrics=run_metrics,
    files_of=files_of,
    on_account_end=services.runs_stop,
    is_expecting=selectors.is_about_to_want,
    names=selectors.has_runs,
    costs=spent_by_method,
    reads_references=reference_reader,
    tables=lambda: (CANDIDATES,),
    recorded={FORMAT: RecordedFormat(kept.load_run, kept.run_remove)},
)
