"""What the server shows of itself: requests in metrics, in the access log and in traces."""
