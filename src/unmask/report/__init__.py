"""Tables, statistics and figures from run folders. Nothing here needs a model, or torch."""
