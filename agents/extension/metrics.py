"""What the metrics say about runs: how many are in which state, and what they have spent.

Does NOT serve them: `benchmarks/operations/metrics.py` asks for these families with its own.
"""

from collections.abc import Iterator

from django.db.models import Count
from prometheus_client.core import GaugeMetricFamily, Metric

from ..models import Run


def run_metrics() -> Iterator[Metric]:
    family = GaugeMetricFamily("kbench_runs", "Agent runs by state", labels=["state"])
    for state, count in Run.objects.order_by().values_list("state").annotate(n=Count("pk")):
        family.add_metric([state], count)
    yield family
