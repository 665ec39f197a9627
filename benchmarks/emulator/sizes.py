"""Chooses the configurations of a task that are emulated, with sizes that an emulator can run.

First come the public GPU configurations that are small enough, then those for the CPU, then larger ones with reduced
sizes. A reduced size keeps its remainder after division by 32, so that divisible sizes stay divisible. Two more have
odd sizes, and one of them has a batch of one. The last one is the largest public configuration that can be run once,
because kernels choose their path by size. Hidden configurations are never used.
"""

from collections.abc import Iterator, Mapping

from ..harness import Config, HarnessError, TaskSpec, resized

MOST_CONFIGS = 10
_MOST_PRODUCTS = 24_000_000  # multiplications and additions of one call
_ALL_PRODUCTS = 64_000_000  # of all configurations together that run in several orders
_MOST_BYTES = 6 << 20  # of arguments and results
_TWICE_PRODUCTS = 10_000_000  # from here on one order of threads is left out
_REDUCED_PRODUCTS = 9_000_000
_ONCE_PRODUCTS = 40_000_000  # of a configuration that is run in one order of threads only
_ONCE_BYTES = 70_000_000
_ONE_ROW_PRODUCTS = 2_000_000
_SAMPLED_BYTES = 1_200_000_000  # of address space: what is not touched takes no memory
_KEPT = 32  # remainders after division by this stay
_CONSTANT = 0.01  # instead of one that is almost nothing, such as eps
_SMALL = 16  # sizes up to this are of kernels, strides and the like


def emulated_configs(task: TaskSpec) -> tuple[Config, ...]:
    """At most MOST_CONFIGS. One that is run once comes last."""
    chosen: dict[str, Config] = {}
    left = 2 * _ALL_PRODUCTS
    for config in _candidates(task):
        name = str(sorted(config.values.items(), key=str))
        if len(chosen) < MOST_CONFIGS - 1 and name not in chosen and bearable(config) and config.flops <= left:
            chosen[name] = config
            left -= config.flops
    return (*chosen.values(), *_once(task))


def sampled_config(task: TaskSpec) -> Config | None:
    """The public configuration with the most work of those that are too large to run but fit into memory."""
    large = [config for config in _shown(task) if runs_once(config) and _bytes(config) <= _SAMPLED_BYTES]
    large = [config for config in large if config not in _once(task)]
    return max(large, key=lambda config: config.flops, default=None)


def bearable(config: Config, most_products: int = _MOST_PRODUCTS, most_bytes: int = _MOST_BYTES) -> bool:
    return config.flops <= 2 * most_products and _bytes(config) <= most_bytes


def has_own_constant(task: TaskSpec, config: Config) -> bool:
    """A constant, such as eps, has a value that no public configuration gives it."""
    shown = [*_shown(task), *(other for other in task.configs.get("cpu", ()) if not other.hidden)]
    return any(
        isinstance(value, float) and all(other.values.get(name) != value for other in shown)
        for name, value in config.values.items()
    )


def _bytes(config: Config) -> int:
    return sum(item.nbytes for item in config.tensors) + sum(item.nbytes for item in config.results)


def runs_once(config: Config) -> bool:
    """Too large for several orders of threads."""
    return not bearable(config)


def runs_twice(config: Config) -> bool:
    return config.flops > 2 * _TWICE_PRODUCTS


def _once(task: TaskSpec) -> list[Config]:
    large = [config for config in _shown(task) if runs_once(config) and bearable(config, _ONCE_PRODUCTS, _ONCE_BYTES)]
    return [max(large, key=lambda config: config.flops)] if large else []


def _shown(task: TaskSpec) -> list[Config]:
    return [config for config in task.configs.get("cuda", ()) if not config.hidden]


def _candidates(task: TaskSpec) -> Iterator[Config]:
    """Odd sizes go early, so that they are never left out."""
    shown = _shown(task)
    small = [config for config in shown if bearable(config)]
    reduced = [
        found
        for config in shown
        if not bearable(config) and (found := _reduced(task, config, _REDUCED_PRODUCTS)) is not None
    ]
    first = [*small, *reduced][:1]
    yield from first
    largest = reduced[:1] or small[-1:]
    for config in (*first, *largest):
        yield from _odd_sizes(task, config)
    for config in shown[-1:]:
        yield from _one_row(task, config)
    yield from small[:3]
    yield from reduced[:3]
    yield from (config for config in task.configs.get("cpu", ()) if not config.hidden)
    yield from small
    yield from reduced


def _odd_sizes(task: TaskSpec, config: Config) -> Iterator[Config]:
    odd = _with(task, config, {name: _odd(size) for name, size in _sizes(config).items()})
    if odd is not None:
        yield odd


def _one_row(task: TaskSpec, config: Config) -> Iterator[Config]:
    """A batch of one, with odd sizes: a block that does not fill. Small constants, such as eps, are larger.

    The largest size stays as it is, if it can: long rows take paths of their own.
    """
    if isinstance(config.values.get("batch_size"), int):
        values = config.values.items()
        constants = {name: _CONSTANT for name, value in values if isinstance(value, float) and 0 < value < 1e-3}
        single = _with(task, config, {"batch_size": 1, **constants})
        found = None
        if single is not None:
            sizes = _sizes(single)
            longest = max(sizes, key=lambda item: sizes[item], default="")
            found = _reduced(task, single, _ONE_ROW_PRODUCTS, longest) or _reduced(task, single, _ONE_ROW_PRODUCTS)
        if found is not None:
            yield from _odd_sizes(task, found)


def _sizes(config: Config) -> dict[str, int]:
    """The values that are sizes and not switches or small constants."""
    return {
        name: value
        for name, value in config.values.items()
        if isinstance(value, int) and not isinstance(value, bool) and value > _SMALL
    }


def _odd(size: int) -> int:
    return size - 1 if size % 2 == 0 else size


def _reduced(task: TaskSpec, config: Config, most_products: int, kept: str = "") -> Config | None:
    """`config` with its largest size but `kept` halved again and again; None if that does not help."""
    found: Config | None = config
    for _ in range(64):
        if found is None or bearable(found, most_products):
            return found
        sizes = {name: size for name, size in _sizes(found).items() if name != kept}
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


def _with(task: TaskSpec, config: Config, values: Mapping[str, float]) -> Config | None:
    merged = {name: value for name, value in config.values.items() if name not in values} | dict(values)
    try:
        return resized(task, config, {name: merged[name] for name in config.values})
    except (HarnessError, ArithmeticError, ValueError, KeyError):
        return None
