from django.db import migrations


def mark(apps, schema_editor):
    """`prepare` writes anew the boards with several judgings of one code, whose intervals and rows have changed."""
    rows = apps.get_model("benchmarks", "Standing").objects.filter(judgings__gt=1)
    deleted = apps.get_model("benchmarks", "DeletedScore").objects.all()
    due = {version for found in (rows, deleted) for version in found.values_list("task_version", flat=True).distinct()}
    for version in due:
        apps.get_model("benchmarks", "TaskVersion").objects.filter(pk=version).update(boards_due=True)


class Migration(migrations.Migration):

    dependencies = [
        ('benchmarks', '0041_deleted_scores_outlive_accounts'),
    ]

    operations = [
        migrations.RunPython(mark, migrations.RunPython.noop),
    ]
