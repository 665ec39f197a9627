"""All that labels of the CUDA corpus still need of a GPU, in one call: `python -m lab.gpu.settle_labels --out FOLDER`.

Side by side: Compute Sanitizer on the kernels in question and then on all with right results (`sanitized.jsonl`), the
former under changed conditions (`conditions.jsonl`), and the emulator on the whole corpus (`corpus.jsonl`), so that its
figures are of one version on one machine. Goes on from the files in the folder `--from`, which a call before has left;
FOLDER then has all lines. Ends after `--budget-s`. The last line of stdout is JSON. Not covered: what follows for the
labels (`fold_labels.py`).
"""

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from agents.evolve.verifiers.emulate import EmulateVerifier
from lab.bench.emulated_corpus import RAW, in_turn, read_words

from .changed_conditions import read_compared
from .sanitize_labels import TO_SANITIZE, read_found

ROOT = Path(__file__).parents[2]
FILES = ("sanitized.jsonl", "conditions.jsonl", "corpus.jsonl")
_LAST_S = 15.0  # for ending what is still running
_PARTS = ("sanitize", "conditions", "emulate")


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    started = time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        if options.earlier and (options.earlier / name).exists() and not (options.out / name).exists():
            shutil.copyfile(options.earlier / name, options.out / name)
    budget_s = options.budget_s - _LAST_S
    commands = {
        name: command
        for name, command in zip(_PARTS, _commands(options, budget_s), strict=True)
        if name not in options.without
    }
    logs = {name: (options.out / f"{name}.log").open("w") for name in commands}
    running = {
        name: subprocess.Popen(command, cwd=ROOT, stdout=logs[name], stderr=subprocess.STDOUT, start_new_session=True)
        for name, command in commands.items()
    }
    codes: dict[str, int | None] = {}
    while len(codes) < len(running) and time.monotonic() - started < options.budget_s:
        codes |= {name: process.poll() for name, process in running.items() if process.poll() is not None}
        time.sleep(0.5)
    for name, process in running.items():
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            codes[name] = None
    for log in logs.values():
        log.close()
    print(json.dumps({**summary(options.out), "codes": codes, "seconds": round(time.monotonic() - started, 1)}))
    return 0 if all(code == 0 for code in codes.values()) else 1


def summary(out: Path) -> dict[str, object]:
    """Counts of what the files hold, with the machine that they are from."""
    found, compared = read_found(out / FILES[0]), read_compared(out / FILES[1])
    words = read_words(out / FILES[2])
    return {
        "sanitized": len({word.sha256 for word in found}),
        "complaints": sorted({f"{word.name} {word.tool}" for word in found if word.finding}),
        "conditions": len(compared),
        "failed": sorted({f"{word.name} {word.condition}" for word in compared if word.verdict != "PASS"}),
        "emulated": len(words),
        "left": len(in_turn(words, ())),
        "version": EmulateVerifier.version,
        "machine": platform.processor() or platform.machine(),
    }


def _commands(options: argparse.Namespace, budget_s: float) -> Sequence[list[str]]:
    python = [sys.executable, "-u", "-m"]
    first = ["--names", str(TO_SANITIZE)]
    words = options.out / FILES[2]
    earlier = [str(RAW), *([str(words)] if words.exists() else [])]
    budget = ["--budget-s", f"{budget_s:.0f}"]
    data = ["--data", str(options.data)]
    tools, lanes = str(options.compilers), str(options.lanes)
    return (
        [
            *(*python, "lab.gpu.sanitize_labels", "--found", str(options.out / FILES[0]), *first),
            *("--rejected", *earlier, "--jobs", tools, "--lanes", lanes, *budget, *data),
        ],
        [
            *(*python, "lab.gpu.changed_conditions", "--found", str(options.out / FILES[1]), *first),
            *("--words", *earlier, "--jobs", tools, "--lanes", "2", *budget, *data),
        ],
        [
            *("nice", "-n", "10", *python, "lab.bench.emulated_corpus", str(words)),
            *("--jobs", str(options.emulators), *budget, *data),
        ],
    )


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m lab.gpu.settle_labels", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--out", type=Path, required=True, help="write the files here")
    parser.add_argument("--from", type=Path, dest="earlier", help="the folder of a call before, to go on from there")
    parser.add_argument("--budget-s", type=float, default=500.0, help="end everything after so many seconds")
    parser.add_argument("--emulators", type=int, default=11, help="files in the emulator at a time")
    parser.add_argument("--compilers", type=int, default=2, help="of nvcc at a time, for each of the two other parts")
    parser.add_argument("--lanes", type=int, default=3, help="tools at a time")
    parser.add_argument("--without", nargs="*", choices=_PARTS, default=[], help="parts to leave out")
    parser.add_argument("--data", type=Path, default=ROOT / "var" / "settle_labels", help="where builds are kept")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
