from django.db import migrations
from django.db.models import F


def one_row_of_each_text(apps, schema_editor):
    """The best row of a text on a board stays; places are given anew by the next judging there."""
    rows = apps.get_model("benchmarks", "Standing").objects.filter(holder__startswith="submission:")
    seen = set()
    for row in rows.select_related("evaluation__submission").order_by(F("rank").asc(nulls_last=True), "pk"):
        text = row.evaluation.submission.blob_id
        board = row.ruleset_id, row.task_version_id, row.device_kind_id, text
        if board in seen:
            row.delete()
        else:
            seen.add(board)
            rows.filter(pk=row.pk).update(holder=f"text:{text}")


class Migration(migrations.Migration):
    dependencies = [("benchmarks", "0049_former_owners")]
    operations = [migrations.RunPython(one_row_of_each_text, migrations.RunPython.noop)]
