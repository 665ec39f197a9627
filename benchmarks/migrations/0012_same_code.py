"""Which submissions are the same program: by their tokens now, and by what was compiled from the next judging on.

Submissions that are there get the key of their tokens; what was compiled of them is not known any more. Rows of boards
whose code has judgings under several texts are deleted, and `prepare` writes them anew with the pooled score.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


from benchmarks.harness import Source, source_key

AT_ONCE = 500


def tell_apart(apps, schema_editor):
    Submission = apps.get_model("benchmarks", "Submission")
    rows = Submission.objects.filter(source_key="").select_related("blob").only("language", "blob__text")
    changed = []
    for row in rows.order_by("pk").iterator(chunk_size=AT_ONCE):
        row.source_key = source_key(Source(row.blob.text, row.language))
        changed.append(row)
        if len(changed) == AT_ONCE:
            Submission.objects.bulk_update(changed, ["source_key"])
            changed = []
    Submission.objects.bulk_update(changed, ["source_key"])
    keys = Submission.objects.order_by().values("source_key").annotate(texts=models.Count("blob", distinct=True))
    several = list(keys.filter(texts__gt=1).values_list("source_key", flat=True))
    Standing = apps.get_model("benchmarks", "Standing")
    for start in range(0, len(several), AT_ONCE):
        Standing.objects.filter(evaluation__submission__source_key__in=several[start : start + AT_ONCE]).delete()


class Migration(migrations.Migration):

    dependencies = [
        ('benchmarks', '0011_kinds_of_processors'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='DeletedScore',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('source_sha256', models.CharField(max_length=64)),
                ('source_key', models.CharField(blank=True, max_length=64)),
                ('object_key', models.CharField(blank=True, max_length=64)),
                ('score', models.FloatField()),
                ('score_lo', models.FloatField()),
                ('score_hi', models.FloatField()),
            ],
            options={
                'ordering': ['pk'],
            },
        ),
        migrations.AddField(
            model_name='evaluation',
            name='object_key',
            field=models.CharField(blank=True, max_length=64),
        ),
        migrations.AddField(
            model_name='refusal',
            name='object_key',
            field=models.CharField(blank=True, max_length=64),
        ),
        migrations.AddField(
            model_name='refusal',
            name='source_key',
            field=models.CharField(blank=True, max_length=64),
        ),
        migrations.AddField(
            model_name='submission',
            name='source_key',
            field=models.CharField(blank=True, max_length=64),
        ),
        migrations.AddIndex(
            model_name='evaluation',
            index=models.Index(condition=models.Q(('object_key', ''), _negated=True), fields=['object_key'], name='evaluation_object_key'),
        ),
        migrations.AddIndex(
            model_name='submission',
            index=models.Index(condition=models.Q(('source_key', ''), _negated=True), fields=['source_key'], name='submission_source_key'),
        ),
        migrations.AddField(
            model_name='deletedscore',
            name='device_kind',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='benchmarks.devicekind'),
        ),
        migrations.AddField(
            model_name='deletedscore',
            name='owner',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='deletedscore',
            name='ruleset',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='benchmarks.ruleset'),
        ),
        migrations.AddField(
            model_name='deletedscore',
            name='task_version',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='benchmarks.taskversion'),
        ),
        migrations.AddIndex(
            model_name='deletedscore',
            index=models.Index(fields=['owner', 'task_version', 'device_kind'], name='benchmarks__owner_i_32182a_idx'),
        ),
        migrations.RunPython(tell_apart, migrations.RunPython.noop),
    ]
