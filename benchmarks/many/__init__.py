"""What many pipelines cost with the whole stack, Airflow included, and how soon their telemetry is decided on."""
