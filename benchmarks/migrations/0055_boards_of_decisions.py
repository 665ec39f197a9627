from django.db import migrations, models
from django.db.models import Count

MANY = 50  # as in 0053


def mark(apps, schema_editor):
    """`prepare` writes anew the boards whose rows or places may be other ones.

    The row of many programs was not of the best of them: 0053 has marked it where the account is still there. A
    contested entry shared a better rank. What staff have decided did not reach what other boards connect.
    """
    tables = {name: apps.get_model("benchmarks", name).objects for name in ("Standing", "Evaluation", "Refusal")}
    contested = tables["Standing"].filter(is_contested=True)
    accepted = tables["Evaluation"].filter(verdict="PASS", submission__owner=None).order_by()
    left = accepted.exclude(submission__former_owner=None, submission__method__kind="human")
    of_holders = left.values("task_version", "submission__former_owner", "submission__method")
    many = of_holders.annotate(n=Count("pk")).filter(n__gt=MANY)
    due = {version for found in (contested, many) for version in found.values_list("task_version", flat=True)}
    moderated = apps.get_model("benchmarks", "Submission").objects.exclude(moderation="ok").order_by()
    refused = tables["Refusal"].filter(verdict="").order_by()
    decided = {task for found in (moderated, refused) for task in found.values_list("task_version__task", flat=True)}
    versions = apps.get_model("benchmarks", "TaskVersion").objects
    for task in decided:
        due.update(versions.filter(task=task).values_list("pk", flat=True))
    for version in due:
        versions.filter(pk=version).update(boards_due=True)


class Migration(migrations.Migration):
    dependencies = [("benchmarks", "0054_what_staff_have_taken_down")]
    operations = [
        migrations.AddField("refusal", "deleted", models.DateTimeField(editable=False, null=True)),
        migrations.RunPython(mark, migrations.RunPython.noop),
    ]
