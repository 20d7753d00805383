"""The snapshot job: reducers, and the folds that workers run."""
