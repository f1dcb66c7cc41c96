"""Who pays: plans and accounts."""
