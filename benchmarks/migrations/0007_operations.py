"""What the operators of a site look at: lengths of queues, builds and self-tests as measured."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("benchmarks", "0006_imports")]

    operations = [
        migrations.AddField(
            model_name="evaluation",
            name="build_s",
            field=models.FloatField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="worker",
            name="tested",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="worker",
            name="test_passed",
            field=models.BooleanField(null=True),
        ),
        migrations.AddIndex(
            model_name="evaluation",
            index=models.Index(fields=["state", "device_kind", "finished", "verdict"], name="evaluation_ended"),
        ),
        migrations.AddIndex(
            model_name="evaluation",
            index=models.Index(fields=["device_kind", "claimed"], name="evaluation_claimed"),
        ),
        migrations.AddIndex(
            model_name="evaluation",
            index=models.Index(fields=["claimed", "device_kind", "priority", "queued"], name="evaluation_waited"),
        ),
        migrations.AddIndex(
            model_name="standing",
            index=models.Index(fields=["-verified_at"], name="standing_newest"),
        ),
        migrations.CreateModel(
            name="QueueSample",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("taken", models.DateTimeField()),
                ("queued", models.PositiveIntegerField()),
                ("running", models.PositiveIntegerField()),
                (
                    "device_kind",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="queue_samples",
                        to="benchmarks.devicekind",
                    ),
                ),
            ],
            options={
                "ordering": ["taken"],
                "constraints": [
                    models.UniqueConstraint(fields=("device_kind", "taken"), name="queuesample_unique_moment")
                ],
            },
        ),
    ]
