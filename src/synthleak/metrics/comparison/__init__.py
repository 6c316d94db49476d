"""Who is compared with whom: members with non-members, or each record with itself."""
