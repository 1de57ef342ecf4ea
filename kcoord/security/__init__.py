"""What guards a listener, of `serve` and `proxy` alike: TLS, logins, and rules by who has logged in. No sockets.

listener      what a listener asks of who comes, as data
listener_tls  TLS of a listener, and what a handshake that failed means
certificates  the name in a client's, as Kafka writes it; whether clients will take our own
der           how certificates are written
users         the file of users
login         the server's half of SASL, frame by frame
sasl_replies  what SaslHandshake and SaslAuthenticate are answered
refusals      why somebody was not let in, to be counted
rules         who may do what
rules_file    as operators write it
stamps        whether a file is another than before
"""
