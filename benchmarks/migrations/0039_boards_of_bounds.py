from django.db import migrations
from django.db.models import Exists, OuterRef


def clear(apps, schema_editor):
    """Boards with bounded or audited entries are written anew by `prepare` (boards_complete), with pooled scores and
    ranks by the rule of this version; recorded ones of GPUs are read again."""
    Standing = apps.get_model("benchmarks", "Standing")
    board = {name: OuterRef(name) for name in ("ruleset", "task_version", "device_kind")}
    bounds = Standing.objects.filter(**board, evaluation__timing_trust__in=("bounded", "audited"))
    gone = list(Standing.objects.filter(Exists(bounds)).values_list("pk", flat=True))
    for start in range(0, len(gone), 500):
        Standing.objects.filter(pk__in=gone[start:start + 500]).delete()
    apps.get_model("benchmarks", "RecordedBundle").objects.filter(device_class="cuda").update(file_sha256="")


class Migration(migrations.Migration):

    dependencies = [
        ('benchmarks', '0038_ranks_of_bounds'),
    ]

    operations = [
        migrations.RunPython(clear, migrations.RunPython.noop),
    ]
