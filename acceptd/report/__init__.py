"""Report: one judgement as a JSON document, as lines for a terminal and as one HTML page."""
