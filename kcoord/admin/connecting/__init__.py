"""How to connect to a cluster: options, files, contexts and secrets, merged into one Connection.

connection        the precedence of the sources, and the result
client_settings   one set of names for the settings that Java's files and -X name differently
contexts          named clusters, in a file of the user
secrets           references to environment variables, files and commands
security          TLS and the login, from settings; jaas, jaas_settings, keystores, oauth
"""
