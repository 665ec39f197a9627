from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("benchmarks", "0054_what_staff_have_taken_down")]
    operations = [migrations.AddField("refusal", "deleted", models.DateTimeField(editable=False, null=True))]
