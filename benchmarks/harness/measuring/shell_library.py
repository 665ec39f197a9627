"""The native calling loop of CPU contestants, built like a submission: in the sandbox, kept under its hash."""

from pathlib import Path

from ..compilers import builds
from ..errors import SupervisorError
from ..rules import Rules
from ..source import Paths, Source

_SOURCE = Path(__file__).parents[1] / "child" / "shell.cpp"


def shell_library(rules: Rules, paths: Paths) -> Path:
    """The loop as an extension module. Raises SupervisorError if this machine cannot build it."""
    build = builds.build(Source(_SOURCE.read_text(), "cpp"), rules, paths)
    if build.binary is None:
        raise SupervisorError(f"the calling loop cannot be built: {build.log[-2000:]}")
    return build.binary
