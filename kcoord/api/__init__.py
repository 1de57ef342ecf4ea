"""The Kafka APIs that are served: `table.py` lists them, and each has a file of its own.

    to_request     a kio entity of any served version to a version-free request
    decide         what answers it
    to_response    only where versions differ in shape: the reply as the version has it

A reply is written as it is: the writer of a version takes the fields that the version has (wire/write.py).
"""
