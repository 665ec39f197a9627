from django.db import migrations


class Migration(migrations.Migration):
    """Ranked boards of GPUs anew; 0039 does so by a later rule."""

    dependencies = [
        ('benchmarks', '0037_timing_trust_of_deleted_scores'),
    ]

    operations = []
