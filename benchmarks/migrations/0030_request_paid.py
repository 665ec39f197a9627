from django.db import migrations, models

import benchmarks.models.ledger


class Migration(migrations.Migration):

    dependencies = [
        ('benchmarks', '0029_energy'),
    ]

    operations = [
        migrations.AddField(
            model_name='kernelrequest',
            name='paid',
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.AlterField(
            model_name='ledgerentry',
            name='created',
            field=models.DateTimeField(default=benchmarks.models.ledger._now, editable=False),
        ),
    ]
