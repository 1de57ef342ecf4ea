"""How a cluster is reached: what was given (options, files, contexts, secrets) put together to one Connection.

connection        what wins over what, and what comes of it
client_settings   one name for what Java's files and -X call differently
contexts          clusters that have a name, in a file of the user's
secrets           references to environment, files and commands
security          TLS and the login of settings; jaas, jaas_settings, keystores, oauth
"""
