"""The hostile catalogue against acceptd and against what people would use instead: ``make hostile-report``."""
