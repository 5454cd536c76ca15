-- MLflow keeps its runs and its users beside Airflow's metadata, each in a database of its own.
CREATE DATABASE mlflow OWNER airflow;
CREATE DATABASE mlflow_auth OWNER airflow;
