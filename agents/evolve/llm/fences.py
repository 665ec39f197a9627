"""Puts untrusted text into a prompt so that nothing inside it can end the quotation.

The mark of a fence is the hash of its content, because no text can contain its own hash. Not covered: what a model
makes of the text; no answer of a model decides a verdict.
"""

import hashlib


def fenced(text: str, what: str) -> str:
    """`text` between two lines that carry a mark of its own. `what` is one of our own words."""
    mark = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:24]
    return f"BEGIN DATA {mark} ({what})\n{text.rstrip()}\nEND DATA {mark}"


def one_line(text: str, chars_max: int = 200) -> str:
    """A name or a reason that somebody else wrote, as part of a line of ours: quoted and without line breaks."""
    words = " ".join(text.split()).replace('"', "'")
    return f'"{words if len(words) <= chars_max else words[: chars_max - 1] + "…"}"'
