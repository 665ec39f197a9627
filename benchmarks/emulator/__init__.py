"""CUDA without a GPU: `check(source, task, rules, paths)` compiles a source as C++ and runs it thread by thread.

The result is CORRECT_HERE, WRONG with findings, or ABSTAINED with what is not modelled. It is no judging: there is no
time, and nothing is ranked. Pure: neither Django nor torch; what needs torch runs in processes of its own.
"""

from .checking import check
from .sizes import emulated_configs
from .verdicts import EmulatorFinding, EmulatorReport, EmulatorVerdict

__all__ = ["EmulatorFinding", "EmulatorReport", "EmulatorVerdict", "check", "emulated_configs"]
