from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("benchmarks", "0015_recorded"),
    ]

    operations = [
        migrations.AddField(
            model_name="evaluation",
            name="provisional",
            field=models.FloatField(blank=True, null=True),
        ),
    ]
