"""Makes a client from the settings of a run, or gives the reason why there is none.

`settings` holds `api_key`, `base_url` and `prices`, the path of an operator's price table. The environment is not read
here but where a run is started, so that only a key that was passed on is used.
"""

from collections.abc import Mapping
from typing import Any

from ..config import ConfigError
from .client import VENDOR_URL, Access, LlmClient
from .prices import PriceError, PriceTable, load_prices


def unavailable(settings: Mapping[str, Any]) -> str | None:
    """Why no language model can be asked, for the person; None if one can."""
    if not str(settings.get("api_key") or "").strip():
        return "no key for language models is set (ANTHROPIC_API_KEY)"
    try:
        prices_of(settings)
    except ConfigError as error:
        return str(error)
    return None


def prices_of(settings: Mapping[str, Any]) -> PriceTable:
    """Raises ConfigError."""
    try:
        return load_prices(settings.get("prices"))
    except PriceError as error:
        raise ConfigError(str(error)) from error


def client_of(settings: Mapping[str, Any], prices: PriceTable) -> LlmClient:
    return LlmClient(Access(str(settings["api_key"]).strip(), settings.get("base_url") or VENDOR_URL), prices)
