"""`mainstem pipeline run`: one process and one Spark that run the jobs of a file at their times."""
