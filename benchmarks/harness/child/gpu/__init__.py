"""Processes of a judging on a GPU, and a stand-in for the device with which most of them run without one."""
