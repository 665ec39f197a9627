from collections import defaultdict

from django.db import migrations

from benchmarks.boards.ranking import Entry, rank


def renew(apps, schema_editor):
    """Boards with bounded or audited entries get the ranks of the new rule, recorded ones when they are read next."""
    Standing = apps.get_model("benchmarks", "Standing")
    boards = defaultdict(list)
    rows = Standing.objects.filter(under_review=False, device_kind__device_class="cuda").select_related("evaluation")
    for row in rows.only("score", "score_lo", "score_hi", "verified_at", "rank", "ruleset", "task_version",
                         "device_kind", "evaluation__timing_trust"):
        boards[row.ruleset_id, row.task_version_id, row.device_kind_id].append(row)
    for board in boards.values():
        ranks = rank(
            Entry(row.pk, row.score, row.score_lo, row.score_hi, row.verified_at, row.evaluation.timing_trust)
            for row in board
        )
        for row in board:
            row.rank = ranks[row.pk]
        Standing.objects.bulk_update(board, ["rank"], batch_size=500)
    apps.get_model("benchmarks", "RecordedBundle").objects.filter(device_class="cuda").update(file_sha256="")


class Migration(migrations.Migration):

    dependencies = [
        ('benchmarks', '0037_timing_trust_of_deleted_scores'),
    ]

    operations = [
        migrations.RunPython(renew, migrations.RunPython.noop),
    ]
