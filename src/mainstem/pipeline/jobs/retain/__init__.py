"""The retain job: retention policies, and the floors that result from them."""
