"""What is known before anything is spent: cost, power, preview, export."""
