"""From source to build: static checks, a toolchain per language, the cache of builds, and the identity of a source."""
