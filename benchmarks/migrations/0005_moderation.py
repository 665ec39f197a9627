"""What staff decided, and judging many again."""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("benchmarks", "0004_quotas"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.AddField(
            model_name="submission",
            name="confirmed_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="submission",
            name="moderation",
            field=models.CharField(
                choices=[
                    ("ok", "Shown"),
                    ("hidden", "Hidden: only its owner and staff can read it"),
                    ("invalidated", "Invalidated: readable, but not ranked"),
                ],
                default="ok",
                max_length=12,
            ),
        ),
        migrations.AlterField(
            model_name="siteswitch",
            name="key",
            field=models.CharField(
                choices=[
                    ("submissions", "New submissions are taken"),
                    ("judging", "Queued submissions are judged"),
                    ("runs", "New agent runs are started"),
                    ("sign-ups", "New accounts are made"),
                    ("banner", "A notice on every page"),
                ],
                max_length=20,
                unique=True,
            ),
        ),
        migrations.CreateModel(
            name="RejudgeBatch",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("code", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("reason", models.TextField()),
                ("wanted", models.JSONField(default=dict)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("running", "Running"),
                            ("paused", "Paused"),
                            ("cancelled", "Cancelled"),
                            ("done", "Done"),
                        ],
                        db_index=True,
                        default="running",
                        max_length=10,
                    ),
                ),
                ("created", models.DateTimeField(auto_now_add=True)),
                ("finished", models.DateTimeField(blank=True, null=True)),
                (
                    "requested_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "ruleset",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="rejudge_batches",
                        to="benchmarks.ruleset",
                    ),
                ),
            ],
            options={
                "ordering": ["-created", "-pk"],
            },
        ),
        migrations.CreateModel(
            name="ModerationAction",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("flag", "Reported"),
                            ("dismiss", "Report dismissed"),
                            ("hide", "Hidden"),
                            ("invalidate", "Invalidated"),
                            ("restore", "Restored"),
                            ("confirm", "Review settled"),
                            ("reopen", "Review opened again"),
                            ("ban", "Account suspended"),
                            ("unban", "Suspension lifted"),
                            ("switch", "Switch turned"),
                            ("rejudge", "Judged again"),
                        ],
                        max_length=12,
                    ),
                ),
                ("subject", models.CharField(max_length=300)),
                ("public_reason", models.TextField(blank=True)),
                ("private_note", models.TextField(blank=True)),
                ("created", models.DateTimeField(auto_now_add=True, db_index=True)),
                (
                    "account",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="moderated",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "actor",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="moderation_actions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "submission",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="moderation_actions",
                        to="benchmarks.submission",
                    ),
                ),
                (
                    "batch",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="actions",
                        to="benchmarks.rejudgebatch",
                    ),
                ),
            ],
            options={
                "ordering": ["-created", "-pk"],
            },
        ),
        migrations.CreateModel(
            name="RejudgeItem",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("position", models.PositiveIntegerField()),
                ("rank_before", models.PositiveIntegerField(blank=True, null=True)),
                ("rank_after", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "after",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="rejudge_item",
                        to="benchmarks.evaluation",
                    ),
                ),
                (
                    "batch",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="items", to="benchmarks.rejudgebatch"
                    ),
                ),
                (
                    "before",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="benchmarks.evaluation"
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="benchmarks.taskversion"
                    ),
                ),
            ],
            options={
                "ordering": ["batch", "position"],
            },
        ),
        migrations.AddConstraint(
            model_name="rejudgebatch",
            constraint=models.CheckConstraint(
                condition=models.Q(("reason", ""), _negated=True), name="rejudgebatch_says_why"
            ),
        ),
        migrations.AddConstraint(
            model_name="rejudgebatch",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("finished__isnull", False), ("state__in", ("done", "cancelled"))),
                    models.Q(models.Q(("state__in", ("done", "cancelled")), _negated=True), ("finished__isnull", True)),
                    _connector="OR",
                ),
                name="rejudgebatch_finished_says_when",
            ),
        ),
        migrations.AddIndex(
            model_name="moderationaction",
            index=models.Index(fields=["submission", "kind", "-id"], name="benchmarks__submiss_90a218_idx"),
        ),
        migrations.AddConstraint(
            model_name="moderationaction",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("kind", "flag"), ("public_reason", ""), models.Q(("private_note", ""), _negated=True)),
                    models.Q(models.Q(("kind", "flag"), _negated=True), models.Q(("public_reason", ""), _negated=True)),
                    _connector="OR",
                ),
                name="moderationaction_gives_a_reason",
            ),
        ),
        migrations.AddConstraint(
            model_name="rejudgeitem",
            constraint=models.UniqueConstraint(fields=("batch", "position"), name="rejudgeitem_unique_position"),
        ),
        migrations.AddConstraint(
            model_name="rejudgeitem",
            constraint=models.UniqueConstraint(fields=("batch", "before"), name="rejudgeitem_unique_before"),
        ),
    ]
