// Stands in for the sources of a target that has none (yet): a static library needs at least one.
