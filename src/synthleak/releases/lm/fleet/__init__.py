"""Fleets: many instances on one frozen backbone, trained and sampled together."""
