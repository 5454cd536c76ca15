# Read by the image of Postgres when its database is made: Airflow and MLflow each get a login and databases of their own.
psql --quiet --set ON_ERROR_STOP=1 --username postgres <<SQL
CREATE ROLE airflow LOGIN PASSWORD '$(cat /run/secrets/airflow_database_password)';
CREATE ROLE mlflow LOGIN PASSWORD '$(cat /run/secrets/mlflow_database_password)';
CREATE DATABASE airflow OWNER airflow;
CREATE DATABASE mlflow OWNER mlflow;
CREATE DATABASE mlflow_auth OWNER mlflow;
SQL
