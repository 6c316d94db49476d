"""Room 9: tables and pages for people."""
