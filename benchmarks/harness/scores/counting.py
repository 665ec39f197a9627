"""Which figure of a score counts where scores are compared: on boards, in contests and in searches.

A score whose times are only bounded has an interval that reaches down to the score with baselines launched without
gaps, as they are beside a replayed kernel. Not covered: ranks, which are a matter of boards.
"""

BOUND_TRUSTS = ("audited", "bounded")  # an audit confirms a bound, and its baselines have been timed like the others


def is_bound(trust: str) -> bool:
    """Whether no more than a bound on the times of a judging is known."""
    return trust in BOUND_TRUSTS


def what_counts(score: float, lo: float, trust: str) -> float:
    """The figure by which a score is compared with others: of a bound the lower end of its interval."""
    return lo if is_bound(trust) else score
