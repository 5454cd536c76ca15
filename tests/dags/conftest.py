from tests.airflow_home import airflow_db, millrace_home

__all__ = ["airflow_db", "millrace_home"]
