"""Regenerates the parts of docs/ that repeat what the code knows; `--check` fails if one is stale.

A generated part stands between `<!-- NAME:begin -->` and `<!-- NAME:end -->`. Not covered: docs/settings.md, which a
test compares with the settings.
"""

import ast
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.harness import VERDICT_TEXTS, default_rules, default_suites, load_suite
from benchmarks.offline import WHY_TEXTS
from scripts.corpus import KINDS, Case, read_cases

ROOT = Path(__file__).parents[1]


def verdicts() -> str:
    rows = [f"| `{verdict}` | {text.meaning} | {text.next_step} |" for verdict, text in VERDICT_TEXTS.items()]
    return "\n".join(["| verdict | meaning | what to do |", "|---|---|---|", *rows])


def evaporation() -> str:
    return "\n".join(
        ["| reason | the file is |", "|---|---|", *(f"| {why} | {text} |" for why, text in WHY_TEXTS.items())]
    )


def corpus() -> str:
    rows = [f"| `{case.folder.name}` | {case.about} | {_verdicts(case)} |" for case in read_cases("cpu")]
    return "\n".join(["| case | what it does | verdict |", "|---|---|---|", *rows])


def gpu_corpus() -> str:
    """By kind: attacks in the order of their classes, then failures, then honest controls."""
    cases = sorted(read_cases("cuda"), key=lambda case: (KINDS.index(case.kind), case.exploit))
    rows = [
        f"| `{case.folder.name}` | {case.class_title} | {case.language} | {case.about} | {_verdicts(case)} |"
        for case in cases
    ]
    return "\n".join(["| case | class | language | what it does | verdict |", "|---|---|---|---|---|", *rows])


def _verdicts(case: Case) -> str:
    limit = "" if case.max_speedup == float("inf") else f", at most {case.max_speedup:g}×"
    return ", ".join(f"`{item}`{limit if item == 'PASS' else ''}" for item in case.expect)


def tasks() -> str:
    """Those of robust-kbench by their names alone, as they are named everywhere, then those of other suites."""
    folders = sorted(default_suites().iterdir(), key=lambda folder: (folder.name != "robust_kbench", folder.name))
    rows = []
    for task in (task for folder in folders for task in load_suite(folder)):
        counts = [
            "/".join(str(sum(item.group == group for item in configs)) for group in ("single", "multi", "hidden"))
            for configs in (task.configs.get("cpu", ()), task.configs.get("cuda", ()))
        ]
        name = task.name if task.suite == "robust-kbench" else f"{task.suite}/{task.name}"
        rows.append(f"| `{name}` | {task.formula} | {counts[0]} | {counts[1]} |")
    head = "| task | computes | CPU configurations (single/multi/hidden) | CUDA configurations |"
    return "\n".join([head, "|---|---|---|---|", *rows])


def rules() -> str:
    return f"```toml\n{default_rules().text.strip()}\n```"


def rooms(package: str) -> str:
    """The packages of a package and then its modules, each with the first sentence of its docstring."""
    folder = ROOT / package
    found = [*sorted(folder.glob("*/__init__.py")), *sorted(folder.glob("*.py"))]
    rows = []
    for path in found:
        name = f"{path.parent.name}/" if path.parent != folder else path.name
        if path == folder / "__init__.py" or name in PRESCRIBED:
            continue
        said = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0].replace("|", "\\|")
        if not said:
            raise SystemExit(f"{path.relative_to(ROOT)} does not say what it is for")
        rows.append(f"| `{name}` | {said} |")
    return "\n".join([f"| room of `{package}/` | holds |", "|---|---|", *rows])


PRESCRIBED = ("management/", "migrations/", "templatetags/")  # Django says what is in them
PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "verdicts": ("docs/judging.md", verdicts),
    "rules": ("docs/judging.md", rules),
    "evaporation": ("docs/without-a-site.md", evaporation),
    "tasks": ("docs/contributing.md", tasks),
    "corpus": ("docs/security.md", corpus),
    "gpu-corpus": ("docs/security.md", gpu_corpus),
    "rooms-benchmarks": ("docs/architecture.md", partial(rooms, "benchmarks")),
    "rooms-harness": ("docs/architecture.md", partial(rooms, "benchmarks/harness")),
    "rooms-agents": ("docs/architecture.md", partial(rooms, "agents")),
    "rooms-search": ("docs/architecture.md", partial(rooms, "agents/evolve")),
}


def main(check: bool) -> int:
    stale = [name for name, (file, make) in PARTS.items() if not _refresh(ROOT / file, name, make(), write=not check)]
    if check and stale:
        print(f"stale: {', '.join(stale)}; run make fix", file=sys.stderr)
    return 1 if check and stale else 0


def _refresh(path: Path, name: str, text: str, *, write: bool) -> bool:
    """Whether the part was fresh."""
    old = path.read_text()
    pattern = re.compile(rf"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)", re.DOTALL)
    if not pattern.search(old):
        raise SystemExit(f"{path.name} has no place for {name}")
    new = pattern.sub(lambda match: f"{match[1]}{text}\n{match[2]}", old)
    if write and new != old:
        path.write_text(new)
    return new == old


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
