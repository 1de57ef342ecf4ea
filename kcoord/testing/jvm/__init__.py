"""The JVM for Kafka's brokers and tools.

java      finds Java and Maven, and builds the command line of a JVM
archive   the class archive that makes the JVM start fast
cache     the user's cache folder, for jars and archives
"""
