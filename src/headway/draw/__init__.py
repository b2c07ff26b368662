"""Charts as SVG text and the page they stand on: no script, no font, no file from elsewhere."""
