"""Former names of what is in millrace.windows now. They warn, and go with the next release."""
