"""The retain job: retention policies, and the floors that follow from them."""
