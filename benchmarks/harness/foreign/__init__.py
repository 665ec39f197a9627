"""Tasks of other suites: an author's file becomes a task, or it is said why it cannot."""
