"""What an evaluation costs as pipelines and days grow in number."""
