"""One builder a kind of DAG: spec in, DAG out. Wiring only; what a task does is in the other packages."""
