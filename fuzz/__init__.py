"""Coverage-guided fuzz targets for the parsers that meet hostile bytes first: ``make fuzz``."""
