"""One judging at work: its processes and their memory, the protocol of calls, baselines and faults."""
