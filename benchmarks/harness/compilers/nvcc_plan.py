"""nvcc's steps, divided so that its two front ends can run in parallel, each in a sandbox of its own.

nvcc reads a source once for the host and once for the device, one after the other, although they are independent.
`nvcc --dryrun` prints the steps. Not covered: what the steps are called with, which stays as nvcc says; a list of
another form gives None, and nvcc then runs as usual.
"""

import re
import shlex
from dataclasses import dataclass

from .toolchain import how_tools_end

MODULE_ID = "module_id"
_SETTING = re.compile(r"([A-Z_]+)=(.*)")
_WANTED = ("PATH", "LD_LIBRARY_PATH", "CICC_PATH")
_WRITES_ID = "--gen_module_id_file"
_ID_FILE = re.compile(r'--module_id_file_name "[^"]*"')
_OWN_TOOLS = ("cudafe++", "cicc", "ptxas", "fatbinary")
# What a text has a tool print is not the last word, which tells what the machine did to it
_LAST_WORD = 'last_word() { "$@" || { code=$?; echo "${1##*/} returned $code exit status" >&2; exit $code; }; }'
# What the assembler says goes to a file of its own: in the log a text can have other tools print lines like its own
SAID_BY_THE_ASSEMBLER = '"$TMPDIR"/assembler'
_APART = (
    f'apart() {{ "$@" >> {SAID_BY_THE_ASSEMBLER} 2>&1 || {{ code=$?; cat {SAID_BY_THE_ASSEMBLER} >&2; '
    'echo "${1##*/} returned $code exit status" >&2; exit $code; }; }'
)
_ASSEMBLER = re.compile(r'"?(?:[^" ]*/)?ptxas"?')
_FOR_HOST = re.compile(r'--gen_c_file_name "([^"]+)"')  # what cudafe++ writes
_FOR_DEVICE = (re.compile(r'--stub_file_name "([^"]+)"'), re.compile(r'--embedded-fatbin="([^"]+)"'))


@dataclass(frozen=True)
class NvccPlan:
    """Commands of the host's front end, of the device's compiler, and the one that needs what both have written.

    The two must not see each other's files: a text that could would be compiled to what the other one had written by
    then. Names of internal symbols come from the file `module_id`, which has to lie where the commands start; nvcc
    would make it in passing.
    """

    host: str
    device: str
    last: str
    host_file: str
    device_files: tuple[str, ...]


def plan_of(dryrun: str) -> NvccPlan | None:
    """The plan for the printed steps; None if they are not the expected ones."""
    lines = [line.removeprefix("#$ ") for line in dryrun.splitlines() if line.startswith("#$ ")]
    steps = [line for line in lines if not _SETTING.match(line) and not line.startswith("rm ")]
    steps = [_ID_FILE.sub(f'--module_id_file_name "{MODULE_ID}"', step) for step in steps]
    fronts = [number for number, step in enumerate(steps) if "cudafe++ " in step]
    if len(fronts) != 1 or _WRITES_ID not in steps[fronts[0]]:
        return None
    after = fronts[0] + 1
    host, device, last = steps[:after], steps[after:-1], steps[-1:]
    if not any("/cicc" in step for step in device) or not last or " -c " not in last[0]:
        return None
    made = _FOR_HOST.search(host[-1])
    passed_on = [pattern.search("\n".join(device)) for pattern in _FOR_DEVICE]
    if made is None or None in passed_on:
        return None
    settings = [found for line in lines if (found := _SETTING.match(line)) and found[1] in _WANTED]
    before = [*(f"export {found[1]}={shlex.quote(found[2])}" for found in settings), _LAST_WORD, _APART]
    host[-1] = host[-1].replace(_WRITES_ID, "")
    scripts = ("\n".join([*before, " &&\n".join(map(_telling, part))]) for part in (host, device, last))
    for_host, for_device, for_last = scripts
    return NvccPlan(for_host, for_device, for_last, made[1], tuple(found[1] for found in passed_on if found))


def _telling(step: str) -> str:
    """The step with how it ended as its last word: g++ tells of the tools that it starts itself."""
    tool, _, arguments = step.partition(" ")
    if _ASSEMBLER.fullmatch(tool):
        return f"apart {step}"
    if any(name in tool for name in _OWN_TOOLS):
        return f"last_word {step}"
    return " ".join([tool, shlex.join(how_tools_end()), arguments])
