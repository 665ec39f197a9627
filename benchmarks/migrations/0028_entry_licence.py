from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('benchmarks', '0027_requests'),
    ]

    operations = [
        migrations.AddField(
            model_name='submission',
            name='licence',
            field=models.CharField(blank=True, max_length=100),
        ),
    ]
