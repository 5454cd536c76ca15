"""Millrace. Its optimizers, plugins, DAGs and jobs lie at the top of the repository and are linked into this folder."""
