"""The jobs over the log, one file each. A job does one round; `mainstem.pipeline.running` repeats it."""
