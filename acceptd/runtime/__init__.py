"""What a runtime really is: its interpreter, libraries and onnxruntime, as plain data; it imports none of them."""
