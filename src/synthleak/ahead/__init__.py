"""Before anything is spent: what a spec holds, does, would find and will cost."""
