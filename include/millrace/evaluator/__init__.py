"""One evaluation of a pipeline, in this process or in one that is forked for it."""
