"""What every package may use: spec, errors, identity, seeds, store, registry, engine."""
