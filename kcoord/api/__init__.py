"""The Kafka APIs that are served, one file each.

Every file says the same things:

    KEY, NAME      Kafka's number and name of the API
    VERSIONS       the versions that are served
    to_request     a kio entity of any of these versions to a version-free request

A reply is written as it is: the writer of a version takes the fields that the version has (wire/write.py). Only where
versions differ in shape, `to_response` makes the one from the other.
"""
