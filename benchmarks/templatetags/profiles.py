"""Words and shares of a profile. Does NOT name bottlenecks: the harness does."""

from django import template

from benchmarks.harness import STALLS

register = template.Library()
LISTINGS = {
    "ptx": "PTX",
    "sass": "SASS",
    "assembly": "Assembly of its functions",
    "vectorisation": "Remarks of the compiler on loops",
}


@register.filter
def share(part: float) -> str:
    return f"{100 * part:.0f} %"


@register.filter
def stall(reason: str) -> str:
    """What a warp does meanwhile, in words."""
    return STALLS.get(reason, reason)


@register.filter
def listing(kind: str) -> str:
    return LISTINGS.get(kind, kind)


@register.filter
def words(key: str) -> str:
    return key.replace("_", " ")
