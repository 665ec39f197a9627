"""What staff decided, and judging many again."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("benchmarks", "0004_quotas")]

    operations = []
