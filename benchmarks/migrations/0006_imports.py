"""Where foreign tasks came from."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("benchmarks", "0005_moderation")]

    operations = [
        migrations.CreateModel(
            name='StoredTask',
            fields=[
                ('version', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='stored', serialize=False, to='benchmarks.taskversion')),
                ('origin_sha256', models.CharField(max_length=64)),
                ('spec', models.JSONField()),
                ('labels', models.JSONField(blank=True, default=list)),
                ('notes', models.JSONField(blank=True, default=list)),
            ],
        ),
        migrations.CreateModel(
            name='SuiteImport',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('format', models.CharField(max_length=30)),
                ('folder', models.CharField(max_length=200)),
                ('started', models.DateTimeField(auto_now_add=True)),
                ('finished', models.DateTimeField(blank=True, null=True)),
                ('suite', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='imports', to='benchmarks.suite')),
            ],
            options={
                'ordering': ['-started', '-pk'],
            },
        ),
        migrations.CreateModel(
            name='ImportReport',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('op', models.CharField(max_length=100)),
                ('direction', models.CharField(max_length=20)),
                ('file', models.CharField(blank=True, max_length=300)),
                ('outcome', models.CharField(choices=[('created', 'New'), ('renewed', 'New version'), ('unchanged', 'Unchanged'), ('refused', 'Refused'), ('retired', 'Retired')], max_length=10)),
                ('problem', models.TextField(blank=True)),
                ('labels', models.JSONField(blank=True, default=list)),
                ('notes', models.JSONField(blank=True, default=list)),
                ('seconds', models.FloatField(default=0.0)),
                ('version', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='benchmarks.taskversion')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='reports', to='benchmarks.suiteimport')),
            ],
            options={
                'ordering': ['pk'],
                'constraints': [models.UniqueConstraint(fields=('run', 'op', 'direction'), name='importreport_once_per_run')],
            },
        ),
    ]
