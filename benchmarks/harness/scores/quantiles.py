"""How many standard errors half a 95 % interval has.

Not covered: standard errors.
"""

NORMAL_95 = 1.959964
_STUDENT_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)  # by degrees of freedom, from 1 on


def student_95(values: int) -> float:
    """Of a mean whose standard error is estimated from as many values, two or more; right to 0.2 %."""
    freedom = values - 1
    if freedom <= len(_STUDENT_95):
        return _STUDENT_95[freedom - 1]
    return NORMAL_95 + 2.372 / freedom + 2.823 / freedom**2  # Cornish and Fisher
