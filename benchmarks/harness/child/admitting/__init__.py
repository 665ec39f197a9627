"""Whether a task can be judged: what an author's file computes, and whether the checker tells right from wrong."""
