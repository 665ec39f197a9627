from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('benchmarks', '0031_news'),
    ]

    operations = [
        migrations.AddField(
            model_name='deletedscore',
            name='language',
            field=models.CharField(blank=True, default='', max_length=10),
            preserve_default=False,
        ),
    ]
