"""The Airflow DAGs of every pipeline: launch, adapt, approve, replay, and profile if its spec asks for it.

To add a pipeline, add its YAML file and its script. spec_problems.py shows invalid specs.
"""

from __future__ import annotations

from airflow.sdk import get_parsing_context

from millrace.dags.builders import adapt, approve, launch, profile, replay
from millrace.pipelines.catalog import find, load_all

# a task needs only its own DAG
wanted = get_parsing_context().dag_id
for spec in load_all()[0].values() if wanted is None else [find(wanted.partition("_")[2])]:
    launch.build(spec)
    adapt.build(spec)
    approve.build(spec)
    replay.build(spec)
    if spec.profile is not None:
        profile.build(spec, spec.profile)
