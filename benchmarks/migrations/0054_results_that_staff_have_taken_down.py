from django.db import migrations, models


def mark(apps, schema_editor):
    """Of results frozen so far those whose own submission is hidden or invalidated, as pages have shown them."""
    entries = apps.get_model("benchmarks", "ContestEntry").objects.filter(submission__isnull=False)
    entries.exclude(submission__moderation="ok").update(taken_down=True)


class Migration(migrations.Migration):
    dependencies = [("benchmarks", "0053_boards_to_write_anew")]
    operations = [
        migrations.AddField("contestentry", "taken_down", models.BooleanField(db_default=False, default=False)),
        migrations.RunPython(mark, migrations.RunPython.noop),
    ]
