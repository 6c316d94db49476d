"""What is known before any work starts: cost, power, preview, export."""
