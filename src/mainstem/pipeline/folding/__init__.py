"""How messages come to a state: reducers, the folds that workers make of them, and where snapshots are kept."""
