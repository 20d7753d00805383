"""A history of calls by many clients, and a checker that looks for one order that explains all of them."""
