"""The Kafka APIs that are served: `table.py` lists them, and each has a file that exports `API` (contract.py):

    to_request     converts a kio entity of any served version to a version-free request
    decide         decides the request
    to_response    converts the reply for a version, where versions differ in shape

Replies are encoded field by field: the writer of a version takes the fields that the version has (protocol/encode.py).
"""
