"""Former names of what is in include.windows now. They warn, and go with the next release."""
