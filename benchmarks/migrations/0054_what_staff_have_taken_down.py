from django.db import migrations, models

KINDS = [
    ("flag", "Reported"),
    ("dismiss", "Report dismissed"),
    ("hide", "Hidden"),
    ("invalidate", "Invalidated"),
    ("restore", "Restored"),
    ("show", "Shown again, still invalidated"),
    ("confirm", "Review closed"),
    ("reopen", "Review reopened"),
    ("ban", "Account suspended"),
    ("unban", "Suspension lifted"),
    ("switch", "Switch changed"),
    ("rejudge", "Judged again"),
]


def mark(apps, schema_editor):
    """Of results frozen so far those whose own submission is hidden or invalidated, as pages have shown them."""
    entries = apps.get_model("benchmarks", "ContestEntry").objects.filter(submission__isnull=False)
    entries.exclude(submission__moderation="ok").update(taken_down=True)


class Migration(migrations.Migration):
    dependencies = [("benchmarks", "0053_boards_to_write_anew")]
    operations = [
        migrations.AddField("contestentry", "taken_down", models.BooleanField(db_default=False, default=False)),
        migrations.AlterField("moderationaction", "kind", models.CharField(choices=KINDS, max_length=12)),
        migrations.RunPython(mark, migrations.RunPython.noop),
    ]
