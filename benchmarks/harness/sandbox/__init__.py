"""Sandboxes of children, their system call filters, and the safe reading of what a child wrote."""
