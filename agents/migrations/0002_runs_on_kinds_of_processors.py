"""A run on a processor belongs to the kind on which its candidates were judged."""

from django.db import migrations


def follow(apps, schema_editor):
    Candidate, Evaluation = apps.get_model("agents", "Candidate"), apps.get_model("benchmarks", "Evaluation")
    for run in apps.get_model("agents", "Run").objects.filter(device_kind__device_class="cpu"):
        tickets = Candidate.objects.filter(run=run).exclude(ticket="").order_by("-pk").values_list("ticket", flat=True)
        judged = Evaluation.objects.filter(code__in=[ticket for ticket in tickets[:50] if len(ticket) == 36])
        kind = judged.values_list("device_kind", flat=True).first()
        if kind is not None and kind != run.device_kind_id:
            type(run).objects.filter(pk=run.pk).update(device_kind=kind)


class Migration(migrations.Migration):
    dependencies = [("agents", "0001_initial"), ("benchmarks", "0011_kinds_of_processors")]

    operations = [migrations.RunPython(follow, migrations.RunPython.noop)]
