from django.db import migrations

ROLES = ("its owner", "staff", "a visitor", "its owner or staff")
OF_ACCOUNTS = ("the account that was deleted", "staff, with the account")


def rename(apps, schema_editor):
    """The names of those who paused or stopped a run, which stayed in its log when their account was deleted."""
    events = apps.get_model("agents", "RunEvent").objects
    runs = apps.get_model("agents", "Run").objects
    acted = events.filter(type="human.action", run__isnull=False).select_related("run__owner").order_by("pk")
    for event in acted.iterator(chunk_size=500):
        who, run = event.payload.get("who", ""), event.run
        if who in (*ROLES, *OF_ACCOUNTS):
            continue
        role = "its owner or staff" if run.owner is None else "its owner" if run.owner.username == who else "staff"
        for verb in ("Paused", "Stopped"):
            said, text = f"{verb} by {who}.", f"{verb} by {role}."
            for end in events.filter(run=run, seq=event.seq + 1, payload__text=said):
                events.filter(pk=end.pk).update(payload={**end.payload, "text": text})
            runs.filter(pk=run.pk, reason_text=said).update(reason_text=text)
        # last, for it says that this is done: what was interrupted may be repeated
        events.filter(pk=event.pk).update(payload={**event.payload, "who": role})


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("agents", "0007_confirmed_candidates")]
    operations = [migrations.RunPython(rename, migrations.RunPython.noop)]
