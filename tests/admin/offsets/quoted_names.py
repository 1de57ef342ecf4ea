"""Names of groups, and what kafka-consumer-groups 4.3.1 makes of them in CSV; the integration test asks it again."""

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
