"""Python submissions: modules with a state, and stand-ins for the compiler that they call."""
