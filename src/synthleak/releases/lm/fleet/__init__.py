"""A fleet, not a queue: many instances on one frozen backbone, trained and sampled together."""
