"""Private evolution: texts that private records vote for have descendants (Aug-PE)."""
