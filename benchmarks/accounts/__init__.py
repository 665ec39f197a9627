"""What belongs to a person: tokens, quotas and limits, what is theirs to hide, delete or take along.

Does NOT decide what staff may do to an account (`moderation/`) and does NOT render its pages (`views/`).
"""
