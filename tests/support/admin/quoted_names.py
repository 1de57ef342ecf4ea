"""Names of groups, and how kafka-consumer-groups 4.3.1 quotes them in CSV; the integration test checks this against the
tool."""

QUOTED = {
    "a.b": "a.b",
    "a-b": "a-b",
    "x" * 24: "x" * 24,
    "x" * 25: f'"{"x" * 25}"',
    "a b": '"a b"',
    'q"x': '"q""x"',
    "a+b": '"a+b"',
    "#x": '"#x"',
    "it's": '"it\'s"',
    "back\\slash": '"back\\slash"',
    "ümläut": "ümläut",
    "{brace": "{brace",
    "~x": "~x",
    "a,b": '"a,b"',
}
