"""Where the parts are put together into something that runs."""
