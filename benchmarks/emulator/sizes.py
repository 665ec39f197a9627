"""Chooses the configurations of a task that are emulated, with sizes that an emulator can run.

First come the public GPU configurations that are small enough, then those for the CPU, then larger ones with reduced
sizes. A reduced size keeps its remainder after division by 32, so that divisible sizes stay divisible. One more has
odd sizes. Hidden configurations are never used.
"""

from collections.abc import Iterator, Mapping

from ..harness import Config, HarnessError, TaskSpec, resized

MOST_CONFIGS = 8
_MOST_PRODUCTS = 24_000_000  # multiplications and additions of one call
_MOST_BYTES = 6 << 20  # of arguments and results
_KEPT = 32  # remainders after division by this stay
_SMALL = 16  # sizes up to this are of kernels, strides and the like


def emulated_configs(task: TaskSpec) -> tuple[Config, ...]:
    """At most MOST_CONFIGS, the largest first within each kind."""
    chosen: dict[str, Config] = {}
    for config in _candidates(task):
        if bearable(config):
            chosen.setdefault(str(sorted(config.values.items(), key=str)), config)
        if len(chosen) == MOST_CONFIGS:
            break
    return tuple(chosen.values())


def bearable(config: Config) -> bool:
    moved = sum(item.nbytes for item in config.tensors) + sum(item.nbytes for item in config.results)
    return config.flops <= 2 * _MOST_PRODUCTS and moved <= _MOST_BYTES


def _candidates(task: TaskSpec) -> Iterator[Config]:
    """Odd sizes go second, so that they are never left out."""
    shown = [config for config in task.configs.get("cuda", ()) if not config.hidden]
    small = [config for config in shown if bearable(config)]
    reduced = [found for config in shown if not bearable(config) and (found := _reduced(task, config)) is not None]
    first = [*small, *reduced][:1]
    yield from first
    for config in first:
        odd = _with(task, config, {name: _odd(size) for name, size in _sizes(config).items()})
        if odd is not None:
            yield odd
    yield from small[:3]
    yield from reduced[:3]
    yield from (config for config in task.configs.get("cpu", ()) if not config.hidden)
    yield from small
    yield from reduced


def _sizes(config: Config) -> dict[str, int]:
    """The values that are sizes and not switches or small constants."""
    return {
        name: value
        for name, value in config.values.items()
        if isinstance(value, int) and not isinstance(value, bool) and value > _SMALL
    }


def _odd(size: int) -> int:
    return size - 1 if size % 2 == 0 else size


def _reduced(task: TaskSpec, config: Config) -> Config | None:
    """`config` with its largest size halved again and again; None if that does not help."""
    found: Config | None = config
    for _ in range(64):
        if found is None or bearable(found):
            return found
        sizes = _sizes(found)
        if not sizes:
            return None
        name = max(sizes, key=lambda item: sizes[item])
        smaller = halved(sizes[name])
        if smaller == sizes[name]:
            return None
        found = _with(task, found, {name: smaller})
    return None


def halved(size: int) -> int:
    """About half of `size`, with the same remainder; below 64 exactly half."""
    if size < 2 * _KEPT:
        return max(size // 2, 1)
    return size - (size // 2 + _KEPT - 1) // _KEPT * _KEPT


def _with(task: TaskSpec, config: Config, values: Mapping[str, int]) -> Config | None:
    merged = {name: value for name, value in config.values.items() if name not in values} | dict(values)
    try:
        return resized(task, config, {name: merged[name] for name in config.values})
    except (HarnessError, ArithmeticError, ValueError, KeyError):
        return None
