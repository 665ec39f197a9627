"""Checks the dependencies of kbench: versions must not conflict, and every licence must be an accepted one.

Works without a network. pip-audit looks up known vulnerabilities if it is installed and reaches its index; otherwise
this says so and does not change the exit code. Does NOT check what the torch of a GPU host depends on.

    python -m scripts.audit
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement

ALLOWED = re.compile(
    r"MIT|0?BSD|Apache|Python Software|PSF|ISC|MPL|Mozilla|Zlib|CC0|BSL|Boost|Unlicense|LLVM|Public Domain",
    re.IGNORECASE,
)
JOINTS = re.compile(r"\s+(?:AND|OR|WITH)\s+|;|[()]")
# Licences that are not in the list, or not in the package's metadata, and why they are in order.
EXCEPTIONS = {
    "axe-playwright-python": "MIT, which only its licence file says; tests only",
    "psycopg": "LGPL-3.0, used as the library it is, unchanged",
    "psycopg-binary": "LGPL-3.0, used as the library it is, unchanged",
    "qrcode": "BSD-3-Clause, and MIT for the code it came from; its third classifier says no more",
}
SKIPPED = ("nvidia-", "cuda-", "triton")  # what torch for CUDA brings along
EXTRAS = ("dev",)
AUDIT_TIMEOUT_S = 120


def main() -> int:
    problems = [*contradictions(), *licence_problems()]
    print("\n".join(problems) or f"{len(dependencies())} dependencies agree with each other and with our licences")
    print(vulnerabilities())
    return 1 if problems else 0


def dependencies() -> dict[str, Distribution]:
    """All that `kbench[dev]` needs and that is installed, by normalised name."""
    found: dict[str, Distribution] = {}
    waiting = [Requirement(f"kbench[{','.join(EXTRAS)}]")]
    while waiting:
        wanted = waiting.pop()
        name = normalised(wanted.name)
        if (name in found and not wanted.extras) or name.startswith(SKIPPED):
            continue
        try:
            found[name] = distribution(wanted.name)
        except PackageNotFoundError:
            continue  # `pip check` tells of it
        waiting += _needed(found[name], wanted.extras)
    del found["kbench"]
    return found


def _needed(package: Distribution, extras: set[str]) -> Iterator[Requirement]:
    for text in package.requires or []:
        wanted = Requirement(text)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": name}) for name in ("", *extras)):
            yield wanted


def licence_problems() -> list[str]:
    """A sentence for each dependency whose licence is not one of ours."""
    return [
        f"{name}: the licence {licence_of(package)!r} is not in the list; read it, then add it to scripts/audit.py"
        for name, package in sorted(dependencies().items())
        if name not in EXCEPTIONS and not is_allowed(licence_of(package))
    ]


def is_allowed(licence: str) -> bool:
    """Every part of an expression must be allowed."""
    parts = [part.strip() for part in JOINTS.split(licence) if part.strip()]
    return bool(parts) and all(ALLOWED.search(part) and "GPL" not in part for part in parts)


def licence_of(package: Distribution) -> str:
    """As the package's metadata say it: an expression, or classifiers, or the first line of a text."""
    about = package.metadata
    classifiers = [
        item.rpartition(" :: ")[2] for item in about.get_all("Classifier") or [] if item.startswith("License")
    ]
    text = str(about.get("License") or "").strip().splitlines()
    return str(about.get("License-Expression") or "; ".join(classifiers) or (text[0] if text else ""))


def contradictions() -> list[str]:
    done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode else []


def vulnerabilities() -> str:
    """What pip-audit found, or why it was not asked."""
    program = shutil.which("pip-audit")
    if program is None:
        return "SKIPPED: pip-audit is not installed, so known vulnerabilities were not looked up"
    try:
        done = subprocess.run(
            [program, "--local"], capture_output=True, text=True, timeout=AUDIT_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return "SKIPPED: pip-audit did not reach its index, so known vulnerabilities were not looked up"
    return done.stdout + done.stderr


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
