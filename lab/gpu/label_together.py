"""Labels the CUDA corpus on a GPU quickly, without a sandbox: `python -m lab.gpu.label_together --labels FILE`.

A judging starts four processes that load torch and compiles one file, so a label takes a minute of several cores. Here
several specimens are compiled as one extension, each in a namespace of its own, and `label_together_child.py` calls
one after the other on every configuration, hidden ones too, several times, with the inputs, the float64 reference and
the tolerances of the judge. Heavy tasks are left to `label_cuda.py`, which asks the judge itself. Only kernels that
kbench itself wrote may be labelled so: nothing protects the process from them. `--again` labels what has a label, to
compare the two, and `--names FILE` only the kernels named there, for which `--draws` can be more. Appends one line per
label to FILE as it comes. The last line of stdout is JSON. Not covered: times, and races that give right results
(Compute Sanitizer).
"""

import argparse
import re
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.harness import Paths, Source, Verdict, default_rules
from benchmarks.harness.compilers.builds import Build, build
from lab.cuda_corpus.specimens import CudaLabel, CudaSpecimen, planned, read_labels

from .child_process import ChildEndedError, LineChild
from .labelling import keep, label_of, parser_of

_TOGETHER = 8  # specimens of one extension
_COMPILE_S = 900.0
_DRAWS = 2  # of inputs for each configuration
_START_S, _CALL_S = 180.0, 90.0
_OUR_FAULT = "exit code 1"  # Python's, after an exception that no kernel raised
_INCLUDE = re.compile(r"^\s*#\s*include\b.*$", re.MULTILINE)
_DEFINED = re.compile(r"^\s*#\s*define\s+(\w+)", re.MULTILINE)
_MODULE = re.compile(r"PYBIND11_MODULE\(\s*TORCH_EXTENSION_NAME\s*,\s*(\w+)\s*\)")
_compared = partial(label_of, labelled_by="comparison")


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    named = options.names.read_text().split() if options.names else None
    known = {} if options.again or named else {label.sha256: label for label in read_labels()}
    known |= {label.sha256: label for label in read_labels(options.labels)}
    light = [item for item in planned() if not item.seed.heavy]
    by_task = sorted(light, key=lambda item: item.seed.task)  # they share references
    chosen = [item for item in by_task if named is None or item.name in named]
    todo = [item for item in chosen if item.sha256 not in known][: options.limit]
    groups = [todo[at : at + _TOGETHER] for at in range(0, len(todo), _TOGETHER)]
    print(f"{len(known)} labelled, {len(todo)} to do in {len(groups)} extensions", flush=True)
    if options.plan:
        return 0
    return 0 if keep(labelled(groups, options), options.labels, len(todo)) == len(todo) else 1


def labelled(groups: Sequence[Sequence[CudaSpecimen]], options: argparse.Namespace) -> Iterator[CudaLabel]:
    """Labels as they come; of what is not reached in time there is none."""
    deadline = time.monotonic() + options.budget_s
    with ThreadPoolExecutor(options.jobs) as builders, ThreadPoolExecutor(options.lanes) as lanes:
        builds = {builders.submit(built, group, options.data): group for group in groups}
        running: list[Future[list[CudaLabel]]] = []
        for future in as_completed(builds):
            group, extension = builds[future], future.result()
            if extension.binary is None and len(group) > 1:  # one of them does not compile
                alone = {builders.submit(built, [item], options.data): [item] for item in group}
                for single in as_completed(alone):
                    running.append(lanes.submit(group_labels, alone[single], single.result(), deadline, options.draws))
            else:
                running.append(lanes.submit(group_labels, group, extension, deadline, options.draws))
            while running and running[0].done():
                yield from running.pop(0).result()
        for item in as_completed(running):
            yield from item.result()


def built(
    group: Sequence[CudaSpecimen],
    data: Path,
    *,
    flags: Sequence[str] = (),
    prelude: str = "",
    deadline: float = float("inf"),
) -> Build:
    """`flags` come after those of the rules, `prelude` after all includes. No binary after the deadline."""
    rules = default_rules()
    limits = replace(rules.compile, timeout_s=_COMPILE_S, cuda_flags=(*rules.compile.cuda_flags, *flags))
    text = merged([item.text for item in group], prelude)
    patient = replace(rules, compile=limits)
    source, paths = Source(text, "cuda"), Paths(data)
    return build(source, patient, paths, target="sm_90", cancelled=lambda: time.monotonic() > deadline)


def merged(texts: Sequence[str], prelude: str = "") -> str:
    """One extension whose submodules `specimen0` and so on are what each text would have been by itself."""
    includes = dict.fromkeys(line.strip() for text in texts for line in _INCLUDE.findall(text))
    parts = [_in_namespace(text, f"specimen{number}") for number, text in enumerate(texts)]
    names = range(len(texts))
    added = ("poison", "last_error") if prelude else ()
    binding = "".join(f'    m.def("{name}", &kbench_conditions::{name});\n' for name in added)
    binding += "".join(f'    auto m{n} = m.def_submodule("specimen{n}"); specimen{n}::bind_all(m{n});\n' for n in names)
    return "\n".join([*includes, prelude, *parts, f"PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{\n{binding}}}\n"])


def _in_namespace(text: str, name: str) -> str:
    body = _MODULE.sub(r"static void bind_all(pybind11::module_& \1)", _INCLUDE.sub("", text))
    body = body.replace('extern "C" ', "")  # names of C know no namespace
    undone = "".join(f"#undef {word}\n" for word in dict.fromkeys(_DEFINED.findall(text)))
    return f"namespace {name} {{\n{body}\n}}\n{undone}"


def group_labels(
    group: Sequence[CudaSpecimen], extension: Build, deadline: float, draws: int = _DRAWS
) -> list[CudaLabel]:
    """The labels of the specimens of one extension. A kernel that ends the process gets its label by that."""
    if extension.binary is None:
        return [_compared(item, False, Verdict.COMPILE_ERROR, extension.problem, extension.seconds) for item in group]
    labels: list[CudaLabel] = []
    child: LineChild | None = None
    for number, item in enumerate(group):
        if time.monotonic() > deadline:
            break
        started = time.monotonic()
        try:
            if child is None:
                child = LineChild("lab.gpu.label_together_child", str(extension.binary), str(draws))
                child.ask({"what": "begin"}, _START_S)
            request = {"module": f"specimen{number}", "task": item.seed.task}
            answer = child.ask(request, _CALL_S * max(draws / _DRAWS, 1))
            if answer["over"]:
                child.close()
                child = None
            verdict, reason = Verdict(answer["verdict"]), answer["reason"]
        except ChildEndedError as error:
            if child is not None:
                child.close()
            child = None
            if str(error) == _OUR_FAULT:
                continue
            verdict = Verdict.TIMEOUT if "no answer" in str(error) else Verdict.RUNTIME_ERROR
            reason = str(error)
        labels.append(_compared(item, verdict is Verdict.PASS, verdict, reason, time.monotonic() - started))
    if child is not None:
        child.close()
    return labels


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = parser_of("label_together", __doc__)
    parser.add_argument("--lanes", type=int, default=4, help="processes on the GPU at a time")
    parser.add_argument("--again", action="store_true", help="also what the judge has labelled")
    parser.add_argument("--names", type=Path, help="only the kernels that this file names, labelled or not")
    parser.add_argument("--draws", type=int, default=_DRAWS, help="draws of inputs for each configuration")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
