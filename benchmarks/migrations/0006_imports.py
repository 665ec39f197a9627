"""Where foreign tasks came from."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("benchmarks", "0005_moderation")]

    operations = []
