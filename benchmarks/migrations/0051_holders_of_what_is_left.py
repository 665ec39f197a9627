from django.db import migrations


def renew(apps, schema_editor):
    """What accounts have left that was not made by hand gets rows of their own; `prepare` writes those that were lost.

    Texts without an account that were compiled to the same have one row from now on.
    """
    tables = {name: apps.get_model("benchmarks", name) for name in ("Standing", "Submission", "TaskVersion")}
    rows = tables["Standing"].objects.filter(holder__startswith="method:")
    left = rows.exclude(evaluation__submission__former_owner=None)
    for pk, former, method in left.values_list(
        "pk", "evaluation__submission__former_owner", "evaluation__submission__method__slug"
    ):
        rows.filter(pk=pk).update(holder=f"former:{former}/{method}")
    agents = tables["Submission"].objects.exclude(former_owner=None).exclude(method__kind="human")
    lost = set(agents.order_by().values_list("evaluations__task_version", flat=True).distinct())
    texts = tables["Standing"].objects.filter(holder__startswith="text:").order_by()
    due = lost | set(texts.values_list("task_version", flat=True).distinct())
    tables["TaskVersion"].objects.filter(pk__in=due - {None}).update(boards_due=True)


class Migration(migrations.Migration):
    dependencies = [("benchmarks", "0050_one_row_of_a_text_without_an_account")]
    operations = [migrations.RunPython(renew, migrations.RunPython.noop)]
