from django.conf import settings
from django.db import migrations, models

import benchmarks.models.requests


class Migration(migrations.Migration):
    dependencies = [
        ("benchmarks", "0056_boards_of_decisions"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        migrations.AlterField(
            model_name="kernelrequest",
            name="owner",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=benchmarks.models.requests.keep_published,
                related_name="kernel_requests",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddConstraint(
            model_name="kernelrequest",
            constraint=models.CheckConstraint(
                condition=models.Q(("owner__isnull", False), ("task__isnull", False), _connector="OR"),
                name="kernelrequest_has_owner_or_task",
            ),
        ),
    ]
