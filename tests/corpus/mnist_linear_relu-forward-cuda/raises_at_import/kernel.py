# Raises while it is imported.
# There is nothing to call; the words of the exception must reach the person.
from parts.linear_relu import *

raise RuntimeError("this module does not like this machine")


def forward(x, weights, biases):
    return honest(x, weights, biases)
