"""What other parts of the site ask about runs: costs, metrics, and an account's runs for its archive."""
