"""Money: prices over time, rating, double-entry postings, an independent check, costs, budgets."""
