"""What a judge is given for an evaluation. Does NOT judge."""

from ..catalogue.folders import rules_of, spec_of
from ..harness import Source
from ..judgings.judge import Assignment
from ..models import Evaluation


def assignment_on(evaluation: Evaluation, device: str) -> Assignment:
    return Assignment(
        Source(evaluation.submission.blob.text, evaluation.submission.language),
        spec_of(evaluation.task_version),
        rules_of(evaluation.ruleset),
        device,
        evaluation.is_quick,
    )
