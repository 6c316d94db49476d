"""Why a record scored as it did: which synthetic texts, and which spans of them."""
