"""The trusted side of the sandbox: starts it, feeds it, watches it, and believes nothing it says."""
