from collections import defaultdict

from django.db import migrations

BOUNDS = ("audited", "bounded")


def counts(row):
    return row.score_lo if row.timing_trust in BOUNDS and row.score_lo is not None else row.score


def renew(apps, schema_editor):
    """Runs with bounded or audited candidates get the best of the new rule, recorded ones when they are read next."""
    Candidate, Run = apps.get_model("agents", "Candidate"), apps.get_model("agents", "Run")
    bound = Candidate.objects.filter(timing_trust__in=BOUNDS, score__isnull=False)
    rows = Candidate.objects.filter(run__in=bound.values("run"), score__isnull=False, judged_as__isnull=False)
    judged = defaultdict(list)
    for row in rows.order_by("judged_as").only("run", "key", "score", "score_lo", "timing_trust", "improved"):
        judged[row.run_id].append(row)
    for run, found in judged.items():
        best = None
        for row in found:
            row.improved = best is None or counts(row) > counts(best)
            best = row if row.improved else best
        Candidate.objects.bulk_update(found, ["improved"], batch_size=500)
        Run.objects.filter(pk=run).update(best_key=best.key, best_score=best.score)
    apps.get_model("agents", "RecordedRun").objects.filter(header__device_class="cuda").update(file_sha256="")


class Migration(migrations.Migration):

    dependencies = [
        ('agents', '0005_recorded_run'),
    ]

    operations = [
        migrations.RunPython(renew, migrations.RunPython.noop),
    ]
