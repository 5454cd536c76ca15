"""The driver as its own allocation manager: executors come and go while its queries run."""
