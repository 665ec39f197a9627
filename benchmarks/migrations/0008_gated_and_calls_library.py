"""Two facts of a report as columns, filled in from the reports that are there."""

from typing import Any

from django.db import migrations, models
from django.db.models.functions import Cast

# Reports are JSON: a quotation mark inside a text of theirs is escaped, so no submission can write these.
NO_GATES = '"gates": []'
CALLS_LIBRARY = '"code": "library-call"'


def fill(apps: Any, _schema: Any) -> None:
    rows = apps.get_model("benchmarks", "Evaluation").objects.filter(verdict="PASS")
    told = rows.annotate(report_text=Cast("report", models.TextField()))
    told.exclude(report_text__contains=NO_GATES).update(gated=True)
    told.filter(report_text__contains=CALLS_LIBRARY).update(calls_library=True)


class Migration(migrations.Migration):
    dependencies = [("benchmarks", "0007_operations")]

    operations = [
        migrations.AddField("evaluation", "gated", models.BooleanField(default=False)),
        migrations.AddField("evaluation", "calls_library", models.BooleanField(default=False)),
        migrations.RunPython(fill, migrations.RunPython.noop, elidable=True),
    ]
