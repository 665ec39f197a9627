from django.db import migrations, models

BOUNDS = ("bounded", "audited")


def mark(apps, schema_editor):
    """`prepare` writes anew the boards with bounded or audited judgings (boards_complete); recorded ones of GPUs are
    read again."""
    due = set()
    for name in ("Evaluation", "DeletedScore"):
        rows = apps.get_model("benchmarks", name).objects.filter(timing_trust__in=BOUNDS)
        due.update(rows.order_by().values_list("task_version", flat=True).distinct())
    for version in due:
        apps.get_model("benchmarks", "TaskVersion").objects.filter(pk=version).update(boards_due=True)
    apps.get_model("benchmarks", "RecordedBundle").objects.filter(device_class="cuda").update(file_sha256="")


class Migration(migrations.Migration):

    dependencies = [
        ('benchmarks', '0038_ranks_of_bounds'),
    ]

    operations = [
        migrations.AddField(
            model_name='taskversion',
            name='boards_due',
            field=models.BooleanField(default=False, editable=False),
        ),
        migrations.AddField(
            model_name='deletedscore',
            name='finished',
            field=models.DateTimeField(null=True),
        ),
        migrations.RunPython(mark, migrations.RunPython.noop),
    ]
