"""Regenerates the parts of docs/ that repeat what the code knows; `--check` fails if one is stale.

A generated part stands between `<!-- NAME:begin -->` and `<!-- NAME:end -->`. Not covered: docs/settings.md, which a
test compares with the settings.
"""

import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import VERDICT_TEXTS, default_rules, default_suites, load_suite

ROOT = Path(__file__).parents[1]


def verdicts() -> str:
    rows = [f"| `{verdict}` | {text.meaning} | {text.next_step} |" for verdict, text in VERDICT_TEXTS.items()]
    return "\n".join(["| verdict | meaning | what to do |", "|---|---|---|", *rows])


def corpus() -> str:
    rows = []
    for path in sorted((ROOT / "tests" / "corpus").glob("*/*/case.toml")):
        case = tomllib.loads(path.read_text())
        expected = case["expect"] if isinstance(case["expect"], list) else [case["expect"]]
        rows.append(f"| `{path.parent.name}` | {case['about']} | {', '.join(f'`{item}`' for item in expected)} |")
    return "\n".join(["| case | what it does | verdict |", "|---|---|---|", *rows])


def tasks() -> str:
    rows = []
    for task in load_suite(default_suites() / "robust_kbench"):
        counts = [
            "/".join(str(sum(item.group == group for item in configs)) for group in ("single", "multi", "hidden"))
            for configs in (task.configs.get("cpu", ()), task.configs.get("cuda", ()))
        ]
        rows.append(f"| `{task.name}` | {task.formula} | {counts[0]} | {counts[1]} |")
    head = "| task | computes | CPU configurations (single/multi/hidden) | CUDA configurations |"
    return "\n".join([head, "|---|---|---|---|", *rows])


def rules() -> str:
    return f"```toml\n{default_rules().text.strip()}\n```"


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "verdicts": ("docs/rules.md", verdicts),
    "rules": ("docs/rules.md", rules),
    "tasks": ("docs/tasks.md", tasks),
    "corpus": ("docs/security.md", corpus),
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
