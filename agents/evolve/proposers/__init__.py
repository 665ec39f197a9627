"""Proposers by name.

Each is imported only when it is used, so its packages are not needed for the others. Not covered: keys and prices,
which are passed as `settings` when a run starts.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from ..config import ConfigError, RunConfig
from ..model import Proposer

CONSTANTS = "constants"  # needs the option `kernel`
_PLACES = {
    "template-evo": ("template_evo", "TemplateEvo"),
    "random": ("template_evo", "TemplateRandom"),
    "anneal": ("template_evo", "TemplateAnneal"),
    CONSTANTS: ("constants", "Constants"),
    "anthropic": ("anthropic", "Anthropic"),
    "anthropic-agent": ("anthropic_agent", "AnthropicAgent"),
    "hybrid": ("hybrid", "Hybrid"),
    "compatible": ("compatible", "Compatible"),
}
NAMES = tuple(_PLACES)


def find_proposer(config: RunConfig, settings: Mapping[str, Any] | None = None) -> Proposer:
    """The proposer of `config`, made by `Class.from_config(config, settings)`.

    `settings` holds what is not part of a run: `api_key`, `base_url`, `prices` (a path),
    and `openai_base_url`, `openai_model`, `openai_api_key` of a local model. Raises ConfigError.
    """
    if config.proposer not in _PLACES:
        raise ConfigError(f"there is no proposer {config.proposer!r}; known: {', '.join(NAMES)}")
    module, name = _PLACES[config.proposer]
    maker = getattr(import_module(f".{module}", __name__), name)
    return cast(Proposer, maker.from_config(config, settings or {}))
