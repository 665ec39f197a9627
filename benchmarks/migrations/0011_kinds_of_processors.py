"""A board per instruction set: what was judged on `cpu` goes to the kind of the processor that judged it.

A report of a C++ kernel holds a fingerprint of its processor's model and flags, and every report names the model. Where
the fingerprint is that of the machine that migrates, the kind is this machine's; so it is where there is none and the
model is the same. Else a table of families tells, for models that say what they have. What is not known by any of these,
and what was never judged, goes to the kind that most is known to belong to. With nothing known at all it goes to
`cpu-unrecorded`, which no worker serves, unless there is nothing to be kept apart: then to the kind of this machine.

The row `cpu` becomes that of the kind with the most judgings, so that everything that points at it follows. Boards and
baselines of tasks that were judged on several kinds lose their rows; `prepare` writes them anew from the judgings.
"""

import re
from collections import Counter

from django.db import migrations, models

from benchmarks.harness import PROCESSOR_KINDS, machine_fingerprint, processor

UNRECORDED = ("cpu-unrecorded", "CPU, instruction set not recorded")
FAMILIES = (  # what their makers' data sheets say; a virtual machine may hide some of it
    (r"Xeon.*(Platinum|Gold|Silver|Bronze)|Xeon.* W-[23]|EPYC (9|8|4)\d{2}[45]|Ryzen.* [79]\d{3}X?\b", "cpu-avx512"),
    (r"EPYC 7\w{3}|Ryzen.* [1-5]\d{3}X?\b|Xeon.* E[357]-\d{4}.* v[34]|Core.* i\d-([4-9]|1[0-4])\d{3}", "cpu-avx2"),
    (r"aarch64|arm64|Neoverse|Cortex", "cpu-neon"),
)


def kind_of(model, fingerprint=None):
    """None where nothing is known. Machines of one model may show different flags to their guests."""
    here = processor()
    if fingerprint == machine_fingerprint() or (model and model == here.model and not fingerprint):
        return here.kind
    return next((kind for form, kind in FAMILIES if model and re.search(form, model)), None)


def split(apps, schema_editor):
    DeviceKind = apps.get_model("benchmarks", "DeviceKind")
    Evaluation = apps.get_model("benchmarks", "Evaluation")
    cpu = DeviceKind.objects.filter(slug="cpu").first()
    if cpu is None:
        return
    judged = Evaluation.objects.filter(device_kind=cpu, report__isnull=False)
    facts = judged.values_list("pk", "report__environment__cpu", "report__environment__machine")
    found = {pk: (kind_of(model, fingerprint), model) for pk, model, fingerprint in facts}
    counted = Counter(kind for kind, _ in found.values() if kind)
    most = counted.most_common(1)[0][0] if counted else UNRECORDED[0] if found else processor().kind
    titles = dict([UNRECORDED, *PROCESSOR_KINDS])
    DeviceKind.objects.filter(pk=cpu.pk).update(slug=most, title=titles[most])
    apps.get_model("benchmarks", "Worker").objects.filter(device_kind=cpu).update(device_kind=None)
    kinds = {most: cpu}
    for pk, (kind, _) in found.items():
        if kind in (None, most):
            continue
        if kind not in kinds:
            kinds[kind], _ = DeviceKind.objects.get_or_create(
                slug=kind, defaults={"title": titles[kind], "device_class": "cpu"}
            )
        Evaluation.objects.filter(pk=pk).update(device_kind=kinds[kind])
    for kind, row in kinds.items():
        seen = {model for of, model in found.values() if model and (of or most) == kind}
        DeviceKind.objects.filter(pk=row.pk).update(processors=sorted(seen))
    _forget_boards(apps, cpu, [row for row in kinds.values() if row != cpu])


def _forget_boards(apps, cpu, others):
    """Of the task versions that were judged on several kinds."""
    Evaluation = apps.get_model("benchmarks", "Evaluation")
    moved = Evaluation.objects.filter(device_kind__in=others).order_by()
    versions = list(moved.values_list("task_version", flat=True).distinct())
    for name in ("Standing", "BaselineResult"):
        apps.get_model("benchmarks", name).objects.filter(device_kind=cpu, task_version__in=versions).delete()


class Migration(migrations.Migration):
    dependencies = [("benchmarks", "0010_fewer_rows_read")]

    operations = [
        migrations.AddField(
            model_name="devicekind", name="processors", field=models.JSONField(blank=True, default=list)
        ),
        migrations.RunPython(split, migrations.RunPython.noop),
    ]
