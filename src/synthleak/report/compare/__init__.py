"""Audits side by side: before and after privacy, two vendors, two versions."""
