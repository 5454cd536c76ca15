from tests.airflow_home import millrace_home

__all__ = ["millrace_home"]
