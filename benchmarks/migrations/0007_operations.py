"""What the operators of a site look at."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("benchmarks", "0006_imports")]

    operations = []
