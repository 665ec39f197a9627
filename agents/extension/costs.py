"""What runs have spent, summed by method: what the comparison of methods shows as cost.

A run counts for the suite of its task whatever came of it. Does NOT count what runs have only reserved.
"""

from django.db.models import Count, FloatField, Sum
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce

from benchmarks.extensions import Scope, SearchCost

from ..models import Run

CURRENCIES = ("usd", "input_tokens", "output_tokens", "judgings", "judging_s")


def spent_by_method(scope: Scope) -> dict[int, SearchCost]:
    """One query, summed by the database."""
    sums = {name: Coalesce(Sum(Cast(KT(f"spent__{name}"), FloatField())), 0.0) for name in CURRENCIES}
    runs = Run.objects.filter(
        method__in=scope.methods, device_kind=scope.device, task_version__task__suite=scope.suite
    ).order_by()
    rows = runs.values_list("method").annotate(n=Count("pk"), **sums)
    return {
        method: SearchCost(n, usd, int(read + written), int(judgings), judging_s)
        for method, n, usd, read, written, judgings, judging_s in rows
    }
