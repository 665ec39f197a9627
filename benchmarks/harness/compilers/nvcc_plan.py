"""Runs the steps of nvcc with its two front ends in parallel.

nvcc reads a source once for the host and once for the device, one after the other, although they are independent.
`nvcc --dryrun` prints the steps; this module turns them into a shell script that runs both at once. Not covered: what
the steps are called with, which stays as nvcc says; a list of another form gives None, and nvcc then runs as usual.
"""

import re
import shlex

MODULE_ID = "module_id"
_SETTING = re.compile(r"([A-Z_]+)=(.*)")
_WANTED = ("PATH", "LD_LIBRARY_PATH", "CICC_PATH")
_WRITES_ID = "--gen_module_id_file"
_ID_FILE = re.compile(r'--module_id_file_name "[^"]*"')


def parallel_script(dryrun: str, place: str) -> str | None:
    """A script for `sh` that does what the printed steps do; None if they are not the expected ones.

    What it keeps on the way lies in the folder `place`, which has to exist. Names of internal symbols come from
    the file `module_id`, which has to exist too; nvcc would make it in passing.
    """
    lines = [line.removeprefix("#$ ") for line in dryrun.splitlines() if line.startswith("#$ ")]
    steps = [line for line in lines if not _SETTING.match(line) and not line.startswith("rm ")]
    parts = _parts([_ID_FILE.sub(f'--module_id_file_name "{MODULE_ID}"', step) for step in steps])
    if parts is None:
        return None
    settings = [found for line in lines if (found := _SETTING.match(line)) and found[1] in _WANTED]
    exports = "\n".join(f"export {found[1]}={shlex.quote(found[2])}" for found in settings)
    host, device, last = (" &&\n".join(map(_looked_at, part)) for part in parts)
    return _SCRIPT.format(exports=exports, place=shlex.quote(place), host=host, device=device, last=last)


NOT_SIDE_BY_SIDE = 97  # the exit code if a text may let one front end read what the other one is writing
# A macro that expands to # makes a directive of a line that the preprocessor has left, and EDG obeys it. The # stands
# behind a space. Assembly in a string may look like that, too.
_DIRECTIVE = r"^[[:space:]]+(#|%:|[?][?]=)"
_HARMLESS = rf"{_DIRECTIVE}[[:space:]]*(pragma|ident|[0-9])"
_PREPROCESSED = re.compile(r'-o "([^"]+\.ii)"')
_SCRIPT = """\
{exports}
export TMPDIR={place}
{{
{host}
}} > {place}/host.log 2>&1 &
host=$!
{{
{device}
}} > {place}/device.log 2>&1
device=$?
wait $host || {{ code=$?; cat {place}/host.log; exit $code; }}
cat {place}/host.log {place}/device.log
rm {place}/host.log {place}/device.log
[ $device = 0 ] || exit $device
{last}
"""


def _looked_at(step: str) -> str:
    """The step, and behind a preprocessor an end where a front end would obey a directive that is left."""
    made = _PREPROCESSED.search(step)
    if made is None or " -E " not in step:
        return step
    looking = f"grep -E {shlex.quote(_DIRECTIVE)} {shlex.quote(made[1])} | grep -qvE {shlex.quote(_HARMLESS)}"
    return f"{step} &&\n{{ if {looking}; then exit {NOT_SIDE_BY_SIDE}; fi; }}"


def _parts(steps: list[str]) -> tuple[list[str], list[str], list[str]] | None:
    """Steps of the host's front end, of the device's compiler, and the one that needs both."""
    fronts = [number for number, step in enumerate(steps) if "cudafe++ " in step]
    if len(fronts) != 1 or _WRITES_ID not in steps[fronts[0]]:
        return None
    after = fronts[0] + 1
    host, device, last = steps[:after], steps[after:-1], steps[-1:]
    if not any("/cicc" in step for step in device) or not last or " -c " not in last[0]:
        return None
    return [step.replace(_WRITES_ID, "") for step in host], device, last
