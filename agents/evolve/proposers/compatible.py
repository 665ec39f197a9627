"""The proposer that asks a local language model, behind an address that speaks OpenAI's chat completions.

The prompts, answers and caps are those of `anthropic`. The model needs a price in the operator's table, which may be 0.
Not covered: tools, and templates written by a model.
"""

from collections.abc import Mapping
from typing import Any, Self

from ..config import ConfigError, RunConfig
from ..llm.access import prices_of
from ..llm.arms import read_arms
from ..llm.client import LlmClient
from ..llm.compatible import CompatibleAccess, unavailable
from ..llm.prices import PriceError
from .anthropic import Anthropic

_ANSWER_TOKENS = 16_000


class Compatible(Anthropic):
    """Asks the model that the settings name, or those of the run's arms."""

    name = "compatible"

    @classmethod
    def from_config(cls, config: RunConfig, settings: Mapping[str, Any]) -> Self:
        """`settings` holds `openai_base_url`, `openai_model`, `openai_api_key` and `prices`. Raises ConfigError."""
        reason = unavailable(settings)
        if reason is not None:
            raise ConfigError(reason)
        prices, model = prices_of(settings), str(settings["openai_model"])
        try:
            answer_tokens = min(_ANSWER_TOKENS, prices.model(model).max_output_tokens)
        except PriceError as error:
            raise ConfigError(f"{error}; a price of 0 is allowed (KBENCH_MODEL_PRICES)") from error
        arms = config.options.get("arms") or [{"model": model, "max_tokens": answer_tokens}]
        access = CompatibleAccess(str(settings["openai_base_url"]), str(settings.get("openai_api_key") or "").strip())
        return cls(LlmClient(access, prices), read_arms(arms, prices))
