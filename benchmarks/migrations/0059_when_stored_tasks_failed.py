from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("benchmarks", "0058_requests_of_accounts_that_left")]
    operations = [
        migrations.AddField(model_name="storedtask", name="failed", field=models.DateTimeField(null=True)),
    ]
