"""The security of listeners, for `serve` and `proxy`: TLS, logins, and authorization rules by principal. No sockets.

listener      the security settings of a listener
listener_tls  the TLS context of a listener, and why handshakes fail
certificates  the principal in a client's certificate, as Kafka formats it; problems of the listener's own certificate
der           parsing DER, the encoding of certificates
users         the file of users and their SCRAM credentials
login         the server's half of SASL, frame by frame
sasl_replies  the replies to SaslHandshake and SaslAuthenticate
refusals      why clients are refused, as the values of a metric's label
rules         authorization rules, decided as Kafka's ACLs
rules_file    parsing the file of rules that operators write
stamps        fingerprints of files, to detect changes
"""
