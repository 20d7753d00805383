"""What the log may give up: policies, and the floors that follow from them."""
