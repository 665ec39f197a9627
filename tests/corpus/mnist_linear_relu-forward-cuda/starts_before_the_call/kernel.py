# Puts an empty node in front of its kernel and says that the kernel starts early behind it. Nothing is launched for the
# node, so the kernel would overlap the one that waits for the appointment, and in a burst the call before.
from parts.linear_relu import *

import sys


def forged(describe):
    def describe_with_an_empty_node(driver, graph):
        first, *others = describe(driver, graph)
        later = [{**node, "after": [[at + 1, kind, port] for at, kind, port in node["after"]]} for node in others]
        return [{"kind": "empty", "after": []}, {**first, "after": [[0, 1, 1]]}, *later]

    return describe_with_an_empty_node


def forge():
    for name, module in list(sys.modules.items()):
        if name.endswith(".gpu.capture") and module.describe.__name__ == "describe":
            module.describe = forged(module.describe)


def forward(x, weights, biases):
    forge()
    return honest(x, weights, biases)
