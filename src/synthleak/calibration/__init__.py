"""Room 6: evidence becomes scores, by what each attacker knows (METHOD §7)."""
