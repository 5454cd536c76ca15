"""Pipeline specs and the built-in pipelines' own scripts."""
