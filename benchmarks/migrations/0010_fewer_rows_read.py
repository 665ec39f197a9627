"""Indexes that hold what busy pages ask for and nothing else."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('benchmarks', '0009_quick_checks'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='evaluation',
            index=models.Index(fields=['submission', 'task_version', 'device_kind'], name='evaluation_of_submission'),
        ),
        migrations.AddIndex(
            model_name='evaluation',
            index=models.Index(condition=models.Q(('score__isnull', False)), fields=['task_version', 'device_kind', 'ruleset', 'finished', 'id', 'score', 'gated', 'submission'], name='evaluation_scored'),
        ),
        migrations.AddIndex(
            model_name='standing',
            index=models.Index(condition=models.Q(('under_review', True)), fields=['verified_at'], name='standing_under_review'),
        ),
        migrations.AddIndex(
            model_name='submission',
            index=models.Index(condition=models.Q(('moderation', 'ok'), _negated=True), fields=['moderation'], name='submission_moderated'),
        ),
        migrations.AddIndex(
            model_name='submission',
            index=models.Index(condition=models.Q(('visibility', 'public'), _negated=True), fields=['visibility'], name='submission_not_public'),
        ),
    ]
