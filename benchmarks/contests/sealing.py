"""The hidden configurations of a contest: checked, sealed with a salt, and opened when it is over.

The only module that reads `Contest.sealed`. The hash of the sealed text is public from the announcement on, so anybody
can check afterwards that nothing was changed; the salt keeps them from trying sizes against the hash before.
"""

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..harness import Config, TaskError, TaskSpec, resized
from ..models import Contest

PER_TASK_MAX = 8  # on one device class
SIZE_MAX = 1 << 20  # of one value
BYTES_MAX = {"cpu": 256 << 20, "cuda": 2 << 30}  # of all arguments and results of a configuration
Hidden = Mapping[str, Mapping[str, list[dict[str, int]]]]  # by task and device class


class BadConfigurations(ValueError):
    """Hidden configurations that cannot be judged; the text is for whoever wrote them."""


class NotOver(Exception):
    """The contest is not over, so its hidden configurations are nobody's to read."""


def checked(text: str, tasks: Iterable[TaskSpec]) -> Hidden:
    """JSON as staff write it: `{"SUITE/OP/DIRECTION": {"cpu": [{"batch_size": 7}]}}`. Raises BadConfigurations."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadConfigurations("This is not JSON.") from error
    known = {f"{task.suite}/{task.name}": task for task in tasks}
    if not isinstance(data, dict) or not all(isinstance(value, dict) for value in data.values()):
        raise BadConfigurations('Write an object: {"SUITE/OP/DIRECTION": {"cpu": [{"batch_size": 7}]}}.')
    if unknown := sorted(set(data) - set(known)):
        raise BadConfigurations(f"{unknown[0][:100]} is not a task of this contest.")
    for name, by_device in data.items():
        with_hidden(known[name], by_device)
    return data


def with_hidden(task: TaskSpec, hidden: Mapping[str, Any]) -> TaskSpec:
    """The task with its hidden configurations as timed ones. Raises BadConfigurations."""
    unknown = sorted(set(hidden) - set(task.configs))
    if unknown:
        raise BadConfigurations(f"{task.name} has no configurations for {unknown[0][:40]}.")
    return replace(
        task,
        configs={
            device: (*configs, *_timed(task, device, configs, hidden.get(device, [])))
            for device, configs in task.configs.items()
        },
    )


def _timed(task: TaskSpec, device: str, configs: tuple[Config, ...], wanted: Any) -> list[Config]:
    if not isinstance(wanted, list) or len(wanted) > PER_TASK_MAX:
        raise BadConfigurations(f"Write a list of at most {PER_TASK_MAX} configurations for {task.name}.")
    model = next(config for config in configs if not config.hidden)
    sizes = {name for name, value in model.values.items() if type(value) is int}
    made: dict[str, Config] = {}
    for values in wanted:
        if not isinstance(values, dict) or not values or not set(values) <= sizes:
            raise BadConfigurations(f"A configuration of {task.name} sets some of: {', '.join(sorted(sizes))}.")
        if not all(type(value) is int and 1 <= value <= SIZE_MAX for value in values.values()):
            raise BadConfigurations(f"The sizes of {task.name} are whole numbers from 1 to {SIZE_MAX}.")
        config = _resized(task, model, values)
        nbytes = sum(item.nbytes for item in config.tensors) + sum(item.nbytes for item in config.results)
        if nbytes > BYTES_MAX[device]:
            raise BadConfigurations(f"{task.name} with {config.key} is too large.")
        if config.key in made or any(config.values == other.values for other in configs):
            raise BadConfigurations(f"{task.name} has the configuration {config.key} already.")
        made[config.key] = config
    return list(made.values())


def _resized(task: TaskSpec, model: Config, values: dict[str, int]) -> Config:
    """All sizes stand in the key, so that it says what it is."""
    named = {part.partition("=")[0] for part in model.key.split(",")}
    shown = {name: value for name, value in model.values.items() if name in named}
    try:
        config = resized(task, model, {**shown, **values})
    except (TaskError, ArithmeticError, ValueError, TypeError) as error:
        raise BadConfigurations(f"{task.name} cannot have these sizes: {error}") from error
    shapes = [item.shape for item in config.tensors] + [item.shape for item in config.results]
    if any(size < 1 for shape in shapes for size in shape):
        raise BadConfigurations(f"{task.name} with {config.key} has an empty tensor.")
    return replace(config, group="multi")


def seal(hidden: Hidden) -> tuple[str, str]:
    """The text that is kept, and its hash."""
    text = json.dumps({"configurations": hidden, "salt": secrets.token_hex(16)}, sort_keys=True)
    return text, hashlib.sha256(text.encode()).hexdigest()


def opened(contest: Contest) -> Hidden:
    """Raises NotOver before the end of the contest."""
    text = sealed_text(contest)
    configurations: Hidden = json.loads(text)["configurations"] if text else {}
    return configurations


def sealed_text(contest: Contest) -> str:
    """Exactly what was hashed. Raises NotOver before the end of the contest."""
    if not contest.is_over:
        raise NotOver
    return contest.sealed
