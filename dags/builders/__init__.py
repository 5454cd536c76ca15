"""One builder per kind of DAG: spec in, DAG out. Wiring only; the tasks' work is in the other packages."""
