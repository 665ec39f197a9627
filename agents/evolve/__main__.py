"""`python -m agents.evolve TASK`: a run on this machine without the site, on a log in a folder.

Progress goes to standard error; the last line of standard output is one JSON document. Exit codes: 0 a correct kernel
was found, 1 none was, 2 wrong usage, 3 our own fault. Does NOT put anything on a leaderboard.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks.harness import (
    LANGUAGES,
    Device,
    HarnessError,
    Paths,
    UsageError,
    default_suites,
    devices_here,
    find_task,
    keep_ready,
    shipped_kernel,
)

from .budget import Caps
from .config import ConfigError, RunConfig
from .events import Draft, LogEvent
from .llm.prices import load_prices
from .local import LocalEvaluator
from .logs import JsonlLog, LogError
from .loop import DriveWish, RunOutcome, create, drive
from .proposers import CONSTANTS, NAMES, find_proposer
from .state import RunState
from .texts import sentence
from .verifiers import find_verifiers, opened_verifiers

FOUND, NOT_FOUND, WRONG_USAGE, OUR_FAULT = 0, 1, 2, 3
_TOLD = frozenset(  # on standard error; everything else is in the log alone
    (
        *("proposal.received", "proposal.rejected", "verdict", "evaluation.finished", "curriculum.began"),
        *("curriculum.ended", "budget.denied", "run.finished", "run.paused", "note", "error"),
    )
)


def _whole(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError
    return value


def _amount(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError
    return value


_CAPS = {
    "judgings": (_whole, "number of judgings"),
    "judging_s": (_amount, "seconds of judging"),
    "wall_s": (_amount, "seconds of wall-clock time"),
    "usd": (_amount, "dollars for language models"),
    "input_tokens": (_whole, "tokens sent to language models"),
    "output_tokens": (_whole, "tokens written by language models"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code. Raises SystemExit for arguments that cannot be read."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except (UsageError, ConfigError, LogError) as error:
        click.echo(f"agents.evolve: {error}", err=True)
        return WRONG_USAGE
    except HarnessError as error:
        click.echo(f"agents.evolve: our own fault: {error}", err=True)
        return OUR_FAULT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m agents.evolve", description="Search for a faster kernel.")
    add = parser.add_argument
    add("task", metavar="TASK", help="OP/DIRECTION, for example mnist_linear_relu/forward")
    add("--proposer", choices=NAMES, default="template-evo", help="what makes the sources (default %(default)s)")
    add("--verifiers", default="static,compile", help="names separated by commas, or empty (default %(default)s)")
    languages = [item.name for item in LANGUAGES.values() if not item.is_module]
    add("--language", choices=languages, default="cpp", help="language of the kernels (default %(default)s)")
    add("--device", default=None, help="cpu or cuda:0; by default the device that runs the language")
    add("--seed", type=int, default=1, help="seed of the random choices (default %(default)s)")
    for name, (kind, text) in _CAPS.items():
        add(f"--{name.replace('_', '-')}", type=kind, default=None, help=f"limit: {text}")
    add("--generation-size", type=int, default=4, help="candidates in a generation (default %(default)s)")
    add("--concurrency", type=int, default=4, help="candidates at work at a time (default %(default)s)")
    add("--islands", type=int, default=2, help="parts of the archive that evolve separately (default %(default)s)")
    add("--plateau", type=int, default=None, help="stop after this many generations without improvement")
    add(
        "--curriculum",
        type=int,
        default=None,
        help="search on one configuration first, until this many generations bring no improvement; needs the verifier "
        "screen",
    )
    add("--target", type=float, default=None, help="stop at this score")
    add(
        "--audit-fraction",
        type=_amount,
        default=0.05,
        help="share of the rejected candidates that is judged anyway (default %(default)s)",
    )
    add(
        "--confirmations",
        type=int,
        default=4,
        help="how many judgings are kept for confirming the best candidates at the end (default %(default)s; at most a "
        "fifth of --judgings)",
    )
    add("--roofline-fraction", type=float, default=None, help="stop at this fraction of the roofline")
    add("--options", type=json.loads, default={}, help="settings of the proposer, a JSON object")
    add("--kernel", type=Path, default=None, help="whose constants are tuned; by default the one that comes with TASK")
    add("--log", type=Path, default=None, help="folder of the log; by default a new one below the data folder")
    add("--resume", action="store_true", help="continue the run in --log")
    add("--quick", action="store_true", help="quick judgings: an estimate, not a ranking")
    add("--json", action="store_true", help="print only the JSON document on standard output")
    return parser


def _run(options: argparse.Namespace) -> int:
    task = find_task(default_suites(), options.task)
    data = Path(os.environ.get("KBENCH_DATA_DIR", "var")).resolve()
    folder = options.log or (data / "evolve" / time.strftime("%Y%m%d-%H%M%S", time.gmtime()))
    with JsonlLog(folder) as log:
        _begin(log, options)
        config = RunState.fold(log.read(), log.get_source).config
        if find_task(default_suites(), config.task) != task:
            raise ConfigError(f"the run in {folder} is for the task {config.task}")
        device = _device(options.device, config)
        plug_ins = _settings(data, device)
        if device.device_class == "cuda":
            keep_ready()
        evaluator = LocalEvaluator(folder / "judged", task, device, Paths(data), quick=options.quick)
        asyncio.run(_drive(_Told(log), config, plug_ins, evaluator))
        return _report(RunState.fold(log.read(), log.get_source), folder, as_json=options.json)


def _begin(log: JsonlLog, options: argparse.Namespace) -> None:
    """Writes the first event, unless a run is to go on."""
    if bool(log.read()) != options.resume:
        text = "holds a run already: continue it with --resume" if log.read() else "holds no run to resume"
        raise ConfigError(f"{log.folder} {text}")
    if options.resume:
        return
    chosen = {name: getattr(options, name) for name in _CAPS if getattr(options, name) is not None}
    caps = Caps.from_json(chosen) if chosen else RunConfig(task="").caps
    place = _device(options.device, RunConfig(task="", language=options.language))
    taken = ("task", "language", "proposer", "seed", "generation_size", "concurrency", "islands")
    stops = ("audit_fraction", "plateau", "curriculum", "target", "roofline_fraction", "confirmations")
    config = RunConfig(
        **{name: getattr(options, name) for name in (*taken, *stops)},
        options={**options.options, **_kernel(options)},
        caps=caps,
        device_kind=place.kind,
        verifiers=tuple(name for name in options.verifiers.split(",") if name),
    )
    plug_ins = _settings(Path(), place)
    proposer = find_proposer(config, plug_ins)
    find_verifiers(config, plug_ins)
    create(log, config, load_prices(plug_ins["prices"]).to_json() if proposer.needs_key else {})


def _kernel(options: argparse.Namespace) -> dict[str, str]:
    """The option `kernel` of the proposer that tunes one. Raises ConfigError, UsageError where there is none."""
    if options.proposer != CONSTANTS or "kernel" in options.options:
        return {}
    try:
        text = options.kernel.read_text() if options.kernel else None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{options.kernel} cannot be read: {error}") from error
    text = text or shipped_kernel(find_task(default_suites(), options.task), options.language)
    if text is None:
        raise ConfigError(f"{options.task} comes without a kernel in {options.language}: name one with --kernel")
    return {"kernel": text}


def _device(name: str | None, config: RunConfig) -> Device:
    """Raises UsageError for one that is not here."""
    wanted = name or ("cpu" if config.language == "cpp" else "cuda:0")
    for device in devices_here():
        if wanted in (device.name, device.kind):
            return device
    raise UsageError(f"there is no device {wanted!r} here")


def _settings(data: Path, device: Device) -> dict[str, Any]:
    return {
        "data": data,
        "device": device.name,
        "api_key": os.environ.get("ANTHROPIC_API_KEY"),
        "base_url": os.environ.get("ANTHROPIC_BASE_URL"),
        "openai_api_key": os.environ.get("OPENAI_API_KEY"),
        "openai_base_url": os.environ.get("OPENAI_BASE_URL"),
        "openai_model": os.environ.get("OPENAI_MODEL"),
        "prices": Path(prices) if (prices := os.environ.get("KBENCH_MODEL_PRICES")) else None,
    }


async def _drive(log: "_Told", config: RunConfig, plug_ins: Mapping[str, Any], evaluator: LocalEvaluator) -> RunOutcome:
    """Ctrl-C stops the run; a second one interrupts the process."""
    wish: list[DriveWish] = ["go"]
    loop = asyncio.get_running_loop()

    def stop() -> None:
        wish[0] = "stop"
        loop.remove_signal_handler(signal.SIGINT)

    async def wishes() -> DriveWish:
        return wish[0]

    loop.add_signal_handler(signal.SIGINT, stop)
    proposer = find_proposer(config, plug_ins)
    async with opened_verifiers(config, plug_ins) as verifiers:
        return await drive(log, proposer, verifiers, evaluator, log, wishes)


class _Told:
    """The log and the `Live` of somebody who reads along on standard error."""

    def __init__(self, log: JsonlLog) -> None:
        self._log = log
        self.read, self.put_source, self.get_source = log.read, log.put_source, log.get_source

    def append(self, drafts: Sequence[Draft]) -> list[LogEvent]:
        events = self._log.append(drafts)
        for event in events:
            if event.type in _TOLD:
                click.echo(f"{event.seq:5} {event.candidate or '':>6} {event.type}: {sentence(event)}", err=True)
        return events

    def say(self, topic: str, payload: Mapping[str, Any]) -> None:
        return


def _report(state: RunState, folder: Path, *, as_json: bool) -> int:
    best = state.best
    document = {
        "run": folder.name,
        "task": state.config.task,
        "judgings": state.budget.spent.judgings,
        "best": {"score": best.score, "source_sha256": best.source_sha256} if best is not None else None,
        "log": str(folder),
        "reason": state.reason,
    }
    if not as_json:
        again = f", confirmed by {best.judgings - 1} more judgings" if best is not None and best.judgings > 1 else ""
        found = f"{best.id} at {best.score:.3f}×{again}" if best is not None else "no correct kernel"
        click.echo(f"{state.config.task}: {found} after {state.budget.spent.judgings} judgings")
    click.echo(json.dumps(document))
    return FOUND if best is not None else NOT_FOUND


if __name__ == "__main__":
    sys.exit(main())
