"""The nouns of Millrace as frozen dataclasses, shared by every part and depending on none of them."""
