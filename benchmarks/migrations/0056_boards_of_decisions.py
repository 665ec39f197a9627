from django.db import migrations
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
    for version in sorted(due):
        versions.filter(pk=version).update(boards_due=True)


class Migration(migrations.Migration):
    atomic = False  # each row is held for itself: whoever writes reports meanwhile holds several of them
    dependencies = [("benchmarks", "0055_when_refused_texts_were_deleted")]
    operations = [migrations.RunPython(mark, migrations.RunPython.noop)]
