from django.db import migrations, models

BOUNDS = ("bounded", "audited")


def mark(apps, schema_editor):
    """`prepare` writes anew the boards with bounded or audited judgings or several of one code (boards_complete);
    recorded ones of GPUs are read again."""
    due = set()
    for name, rows in (
        ("Evaluation", models.Q(timing_trust__in=BOUNDS)),
        ("DeletedScore", models.Q()),
        ("Standing", models.Q(judgings__gt=1)),
    ):
        found = apps.get_model("benchmarks", name).objects.filter(rows)
        due.update(found.order_by().values_list("task_version", flat=True).distinct())
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
