"""Checks of the rules: each API's guard decides what a principal may do, as KafkaApis and ControllerApis do."""
