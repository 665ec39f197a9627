"""The proposer that tunes a finished kernel: the search of `template-evo` over the constants that its text names.

The kernel's text is the option `kernel` of the run, `constants` may name those to tune. It proposes the kernel as it is
first, then every change of one constant, and then what the search of the option `search` asks for: `forecast`, or
`anneal` to do without one. Not covered: what counts as a constant (`templates/constants.py`).
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Self

from ..config import ConfigError, RunConfig
from ..model import ProposalRequest
from ..search import Search, anneal, around, forecasting
from ..templates import Template, constants_of, template_of_constants
from .template_evo import TemplateEvo

KERNEL_BYTES_MAX = 256 * 1024
SEARCHES: Mapping[str, Search] = {"forecast": forecasting, "anneal": anneal}  # after the changes of one constant


class Constants(TemplateEvo):
    """Raises ConfigError when it is made without a kernel or for a language without constants."""

    name = "constants"

    def __init__(self, kernel: str, names: tuple[str, ...] = (), then: Search = forecasting) -> None:
        super().__init__()
        self._kernel, self._names = kernel, names
        self.search = partial(around, then=then)

    @classmethod
    def from_config(cls, config: RunConfig, _settings: Mapping[str, Any]) -> Self:
        if config.language not in ("cpp", "cuda"):
            raise ConfigError(f"constants are tuned in C++ and CUDA, not in {config.language}")
        kernel, names = config.options.get("kernel"), config.options.get("constants", [])
        if not isinstance(kernel, str) or not 0 < len(kernel.encode()) <= KERNEL_BYTES_MAX:
            raise ConfigError(f"the option kernel must be the text of a kernel, of {KERNEL_BYTES_MAX} bytes at most")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ConfigError("the option constants must be a list of names")
        known = [item.name for item in constants_of(kernel)]
        if unknown := [name for name in names if name not in known]:
            raise ConfigError(f"the kernel names no constant {', '.join(unknown)}; known: {', '.join(known) or 'none'}")
        if not known:
            raise ConfigError("the kernel names no constants, such as `constexpr int kTile = 64;` or `#define TILE 64`")
        search = config.options.get("search", "forecast")
        if not isinstance(search, str) or search not in SEARCHES:
            raise ConfigError(f"the option search must be one of {', '.join(SEARCHES)}")
        return cls(kernel, tuple(names), SEARCHES[search])

    def template(self, request: ProposalRequest) -> Template | None:
        return template_of_constants(self._kernel, request.language, request.task.name, self._names)
