from django.db import migrations
from django.db.models import Count, F, Q

MANY = 50  # judgings of an account: of more programs than these not all were read when its row was written anew


def mark(apps, schema_editor):
    """`prepare` writes anew the boards whose rows or places may be other ones.

    Places had gaps where 0050 has left one row of several; entries that are contested or have a wide interval share
    their rank with fewer others; a task that was flagged kept its rows; the row of many programs was not of the best.
    """
    rows, judged = apps.get_model("benchmarks", "Standing").objects, apps.get_model("benchmarks", "Evaluation").objects
    wide = Q(score_lo__lt=F("score") * 0.9) | Q(score_hi__gt=F("score") * 1.1)
    moved = rows.filter(Q(holder__startswith="text:") | Q(is_contested=True) | wide)
    flagged = rows.exclude(task_version__task__labels=[])
    accepted = judged.filter(verdict="PASS", submission__owner__isnull=False).order_by()
    many = accepted.values("task_version", "submission__owner").annotate(n=Count("pk")).filter(n__gt=MANY)
    due = {version for found in (moved, flagged, many) for version in found.values_list("task_version", flat=True)}
    for version in due:
        apps.get_model("benchmarks", "TaskVersion").objects.filter(pk=version).update(boards_due=True)


class Migration(migrations.Migration):
    dependencies = [("benchmarks", "0052_deleted_connections")]
    operations = [migrations.RunPython(mark, migrations.RunPython.noop)]
