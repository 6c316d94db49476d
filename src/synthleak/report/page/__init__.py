"""The sections of `report.html`: each module prepares one of them."""
