"""What a judging costs whom, and how often something was tried."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("benchmarks", "0003_agent_runs"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Refusal",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("source_sha256", models.CharField(max_length=64)),
                ("language", models.CharField(max_length=10)),
                (
                    "verdict",
                    models.CharField(
                        choices=[
                            ("PASS", "PASS"),
                            ("COMPILE_ERROR", "COMPILE_ERROR"),
                            ("REJECTED", "REJECTED"),
                            ("INCORRECT_SHAPE", "INCORRECT_SHAPE"),
                            ("INCORRECT_DTYPE", "INCORRECT_DTYPE"),
                            ("INCORRECT_VALUE", "INCORRECT_VALUE"),
                            ("NONDETERMINISTIC", "NONDETERMINISTIC"),
                            ("RUNTIME_ERROR", "RUNTIME_ERROR"),
                            ("OUT_OF_MEMORY", "OUT_OF_MEMORY"),
                            ("TIMEOUT", "TIMEOUT"),
                            ("TAMPERING", "TAMPERING"),
                            ("NOISY", "NOISY"),
                            ("INTERNAL_ERROR", "INTERNAL_ERROR"),
                        ],
                        max_length=20,
                    ),
                ),
                ("finished", models.DateTimeField()),
            ],
            options={
                "ordering": ["finished", "pk"],
            },
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=64)),
                ("since", models.DateTimeField(db_index=True)),
                ("count", models.PositiveIntegerField(default=0)),
            ],
            options={
                "ordering": ["since", "pk"],
                "constraints": [models.UniqueConstraint(fields=("key", "since"), name="attempt_one_per_window")],
            },
        ),
        migrations.CreateModel(
            name="Payer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("address_digest", models.CharField(blank=True, max_length=64, null=True, unique=True)),
                ("seen", models.DateTimeField(auto_now_add=True)),
                (
                    "account",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="payer",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["pk"],
            },
        ),
        migrations.CreateModel(
            name="LedgerEntry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(choices=[("charge", "Charged"), ("refund", "Given back")], max_length=10)),
                ("judging_s", models.FloatField()),
                ("text", models.CharField(max_length=500)),
                ("created", models.DateTimeField(auto_now_add=True)),
                (
                    "evaluation",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="ledger_entries",
                        to="benchmarks.evaluation",
                    ),
                ),
                (
                    "payer",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="entries", to="benchmarks.payer"
                    ),
                ),
            ],
            options={
                "ordering": ["-created", "-pk"],
            },
        ),
        migrations.AddField(
            model_name="submission",
            name="payer",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="submissions",
                to="benchmarks.payer",
            ),
        ),
        migrations.AddIndex(
            model_name="submission",
            index=models.Index(fields=["payer", "-created"], name="benchmarks__payer_i_618dcd_idx"),
        ),
        migrations.AddField(
            model_name="refusal",
            name="device_kind",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="benchmarks.devicekind"
            ),
        ),
        migrations.AddField(
            model_name="refusal",
            name="ruleset",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="benchmarks.ruleset"
            ),
        ),
        migrations.AddField(
            model_name="refusal",
            name="task_version",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="benchmarks.taskversion"
            ),
        ),
        migrations.AddConstraint(
            model_name="payer",
            constraint=models.CheckConstraint(
                condition=models.Q(("account__isnull", True), ("address_digest__isnull", True), _connector="OR"),
                name="payer_is_one_of_both",
            ),
        ),
        migrations.AddIndex(
            model_name="ledgerentry",
            index=models.Index(fields=["payer", "-created"], name="benchmarks__payer_i_d70baa_idx"),
        ),
        migrations.AddConstraint(
            model_name="ledgerentry",
            constraint=models.UniqueConstraint(fields=("evaluation", "kind"), name="ledgerentry_once_per_kind"),
        ),
        migrations.AddConstraint(
            model_name="ledgerentry",
            constraint=models.CheckConstraint(
                condition=models.Q(("judging_s__gt", 0)), name="ledgerentry_is_something"
            ),
        ),
        migrations.AddIndex(
            model_name="refusal",
            index=models.Index(fields=["source_sha256", "task_version"], name="benchmarks__source__ceb784_idx"),
        ),
    ]
