"""A release that is already there: what is looked at before the verdict, and what is said of it."""
