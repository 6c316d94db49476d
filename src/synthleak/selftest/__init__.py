"""The auditor audited: whole small audits of generators whose leak is known (METHOD §8).

Every audit walks the corridor from a corpus of its own to its figures. A row repeats one kind of
audit with other seeds and holds the outcome to a limit: false alarms and broken claims to the
99.9% point of the binomial at 5%, `echo` to its closed form, named records to the false-discovery
rate asked for. A row that has no limit shows power.
"""
