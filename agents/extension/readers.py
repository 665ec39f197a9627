"""The reader of references that an import may use: a language model with the key of this installation."""

import asyncio
from collections.abc import Callable

from django.conf import settings

from benchmarks.extensions import ReferenceOpinion, ReferenceUnread

from ..evolve.config import ConfigError
from ..evolve.llm.access import client_of, prices_of, unavailable
from ..evolve.llm.references import ReferenceReader


def reference_reader(usd_max: float) -> Callable[[str], ReferenceOpinion]:
    """Reads references for at most `usd_max` together. Raises ReferenceUnread where no model can be asked."""
    chosen = {
        "api_key": settings.ANTHROPIC_API_KEY,
        "base_url": settings.ANTHROPIC_BASE_URL,
        "prices": settings.KBENCH_MODEL_PRICES,
    }
    reason = unavailable(chosen)
    if reason is not None:
        raise ReferenceUnread(reason)
    try:
        reader = ReferenceReader(client_of(chosen, prices_of(chosen)), usd_max)
    except ConfigError as error:
        raise ReferenceUnread(str(error)) from error

    def read(source: str) -> ReferenceOpinion:
        found = asyncio.run(reader.read(source))
        return ReferenceOpinion(found.labels, found.notes, found.cost.usd)

    return read
