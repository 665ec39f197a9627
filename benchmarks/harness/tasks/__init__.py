"""Tasks: the specification, its JSON form, the expressions in it, and starter code."""
