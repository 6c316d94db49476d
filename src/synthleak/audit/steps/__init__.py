"""What an audit does, in units that an engine hands to workers.

Every kind of work asks the store what is missing and cuts it into units. A unit names what is
missing, its task makes it and puts it into the store; nothing comes back but a count.
"""
