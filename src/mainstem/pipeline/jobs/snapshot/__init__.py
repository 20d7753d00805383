"""The snapshot job: reducers, the folds that workers run, and where snapshots are stored."""
