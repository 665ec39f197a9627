"""Verifiers by name, cheap ones first. Each is imported when it is asked for.

Not covered: what a verdict leads to (`loop.py`) and how good they are (`matrix.py`).
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from ..config import ConfigError, RunConfig
from ..model import Verifier

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


def _make(name: str, config: RunConfig, settings: Mapping[str, Any]) -> Verifier:
    module, attribute = _PLACES[name]
    maker = getattr(import_module(f".{module}", __name__), attribute)
    return cast(Verifier, maker.from_config(config, settings))
