"""Verifiers by name, cheap ones first. Each is imported when it is asked for.

Not covered: what a verdict leads to (`loop.py`) and how good they are (`matrix.py`).
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, cast

from ..config import ConfigError, RunConfig
from ..model import ClosingVerifier, Verifier

_PLACES = {
    "static": ("static", "StaticVerifier"),
    "compile": ("compile", "CompileVerifier"),
    "emulate": ("emulate", "EmulateVerifier"),
    "screen": ("screen", "ScreenVerifier"),
    "critic": ("critic", "Critic"),
}
NAMES = tuple(_PLACES)


def find_verifiers(config: RunConfig, settings: Mapping[str, Any] | None = None) -> tuple[Verifier, ...]:
    """The verifiers of `config`, each made by `Class.from_config(config, settings)`, in the order of this table.
    `emulate` is left out where the language is not CUDA.

    `settings` holds what is not part of a run: `data` (the folder of builds), `device` (`cpu`, `cuda:0`), `api_key`,
    `base_url`, `prices`. Raises ConfigError.
    """
    unknown = set(config.verifiers) - set(_PLACES)
    if unknown:
        raise ConfigError(f"there is no verifier {', '.join(sorted(unknown))}; known: {', '.join(NAMES)}")
    wanted = (name for name in NAMES if name in config.verifiers and (name != "emulate" or config.language == "cuda"))
    return tuple(_make(name, config, settings or {}) for name in wanted)


@asynccontextmanager
async def opened_verifiers(
    config: RunConfig, settings: Mapping[str, Any] | None = None
) -> AsyncIterator[tuple[Verifier, ...]]:
    """As `find_verifiers`; closes those that keep something when it is left."""
    found = find_verifiers(config, settings)
    try:
        yield found
    finally:
        for item in found:
            if isinstance(item, ClosingVerifier):
                await asyncio.to_thread(item.close)


def _make(name: str, config: RunConfig, settings: Mapping[str, Any]) -> Verifier:
    module, attribute = _PLACES[name]
    maker = getattr(import_module(f".{module}", __name__), attribute)
    return cast(Verifier, maker.from_config(config, settings))
