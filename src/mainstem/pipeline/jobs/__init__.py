"""The jobs over the log, one file each. A job does one round; `mainstem.pipeline.jobs.runner` repeats it."""
