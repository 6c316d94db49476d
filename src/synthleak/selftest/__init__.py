"""The auditor audited: whole small audits whose outcome is known (docs/method.md §8, §11, §14).

Every audit goes all the way, from records of its own to the verdict: games with generators whose
leak is known, and checks of releases that tell nothing, or a known amount. A row repeats one kind
of audit with other seeds and holds the outcomes to a limit: false alarms and broken claims to the
99.9% point of the binomial at 5%, `echo` to its closed form, named records to the false-discovery
rate asked for, leaks and claims that are too small to being found. Rows whose extra is not
installed are named as not run.
"""
