"""What a judging costs an account."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("benchmarks", "0003_agent_runs")]

    operations = []
